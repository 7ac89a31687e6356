#include "optim/ema.h"

#include "core/backend.h"
#include "core/error.h"
#include "optim/optimizer.h"

namespace tandem::optim {

namespace {
void overwrite(const Tensor& target, const Tensor& source) {
  backend_for(target.device()).copy_bytes(source, target);
  target.storage()->bump_version();
}
}  // namespace

Ema::Ema(const FlatBuffers& buffers, const Tensor& statistics, const EmaOptions& options)
    : options_(options),
      masters_(buffers.masters()),
      statistics_(statistics),
      average_(masters_.clone(MemoryKind::optimizer)) {
  check_option("ema", "decay", options.decay, {});
  if (statistics_.defined()) average_statistics_ = statistics_.clone(MemoryKind::optimizer);
}

void Ema::update(const Tensor& state) {
  Backend& backend = backend_for(masters_.device());
  backend.update_average(masters_, average_, options_, state);
  if (statistics_.defined()) backend.update_average(statistics_, average_statistics_, options_, state);
}

Ema::Scope::Scope(Ema& ema) : ema_(ema) {
  require(!ema.swapped_in_, "ema", "the averages are swapped in already");
  masters_ = ema.masters_.clone(MemoryKind::workspace);
  if (ema.statistics_.defined()) statistics_ = ema.statistics_.clone(MemoryKind::workspace);
  overwrite(ema.masters_, ema.average_);
  if (statistics_.defined()) overwrite(ema.statistics_, ema.average_statistics_);
  ema.swapped_in_ = true;
}

Ema::Scope::~Scope() {
  overwrite(ema_.masters_, masters_);
  if (statistics_.defined()) overwrite(ema_.statistics_, statistics_);
  ema_.swapped_in_ = false;
}

}  // namespace tandem::optim
