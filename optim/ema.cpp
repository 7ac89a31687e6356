#include "optim/ema.h"

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"

namespace tandem::optim {

namespace {
void overwrite(const Tensor& target, const Tensor& source) {
  backend_for(target.device()).copy_bytes(source, target);
  target.storage()->bump_version();
}
}  // namespace

Ema::Ema(const FlatBuffers& buffers, Index statistics, const EmaOptions& options)
    : options_(options), masters_(buffers.masters()), average_(buffers.make(MemoryKind::optimizer)) {
  require(options.decay >= 0.0 && options.decay < 1.0, "ema", "decay must lie in [0, 1), is {}",
          options.decay);
  if (statistics > 0)
    average_statistics_ = Tensor::zeros({statistics}, {DType::f32, buffers.device(), MemoryKind::optimizer});
}

void Ema::start(const Tensor& statistics) {
  overwrite(average_, masters_);
  statistics_ = statistics;
  if (statistics_.defined()) overwrite(average_statistics_, statistics_);
}

void Ema::begin(std::int64_t applied) {
  ensure(uniform(), "ema", "begin() is for uniform averages; an exponential average begins with start()");
  if (begun_ >= 0) return;
  begun_ = applied;
  // The first update would move by the whole difference, which is exact only between neighbouring floats.
  start(statistics_);
}

// The mean of k values is the mean of k − 1 values moved by 1/k of the way to the last.
void Ema::update(const Tensor& state, std::int64_t applied) {
  if (!follows()) return;
  AverageRule rule{.decay = options_.decay, .warm_up = options_.warm_up};
  if (uniform()) rule = {.decay = 1.0 - 1.0 / static_cast<double>(applied - begun_), .warm_up = false};
  Backend& backend = backend_for(masters_.device());
  backend.update().update_average(masters_, average_, rule, state);
  if (statistics_.defined()) backend.update().update_average(statistics_, average_statistics_, rule, state);
}

Ema::Scope::Scope(Ema& ema) : ema_(ema) {
  require(!ema.swapped_in_, "ema", "the averages are swapped in already");
  masters_ = ema.masters_.clone(MemoryKind::workspace);
  if (ema.statistics_.defined()) statistics_ = ema.statistics_.clone(MemoryKind::workspace);
  ema.swapped_in_ = true;
  try {
    overwrite(ema.masters_, ema.average_);
    if (statistics_.defined()) overwrite(ema.statistics_, ema.average_statistics_);
  } catch (...) {
    leave_if_possible();
    throw;
  }
}

Ema::Scope::~Scope() { leave_if_possible(); }

void Ema::Scope::leave() {
  if (!masters_.defined()) return;
  overwrite(ema_.masters_, masters_);
  if (statistics_.defined()) overwrite(ema_.statistics_, statistics_);
  masters_ = statistics_ = {};
  ema_.swapped_in_ = false;
}

void Ema::Scope::leave_if_possible() noexcept {
  try {
    leave();
  } catch (const std::exception&) {
  }
}

}  // namespace tandem::optim
