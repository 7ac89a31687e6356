#include "optim/step/loss_gradients.h"

#include <algorithm>

#include "core/backend.h"
#include "core/kernels/update.h"

namespace tandem::optim {

LossGradients::LossGradients(const FlatBuffers& buffers, const LossScaler& scaler)
    : buffers_(buffers), scaler_(scaler), has_(buffers.slots().size(), 0) {}

const Tensor& LossGradients::sum() {
  if (!sum_.defined()) sum_ = buffers_.make(MemoryKind::gradients);
  return sum_;
}

void LossGradients::add(int loss_index, const Tensor& state) {
  const auto& slots = buffers_.slots();
  fresh_.clear();
  further_.clear();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].parameter.gradient().defined()) continue;
    (has_[i] ? further_ : fresh_).push_back({.first = slots[i].first, .count = slots[i].count});
    has_[i] = 1;
  }
  const auto add_to_sum = [&](const std::vector<UpdateRange>& part, bool further) {
    if (part.empty()) return;
    scaler_.repair(buffers_.gradients(), part, loss_index);
    backend_for(buffers_.device())
        .update()
        .unscale(buffers_.gradients(), part, {.add = further, .attribute = true}, sum(), state,
                 scaler_.device_state(loss_index));
  };
  add_to_sum(fresh_, false);
  add_to_sum(further_, true);
  for (const FlatBuffers::Slot& slot : slots) slot.parameter.leaf().clear_gradient();
}

void LossGradients::give_back() {
  if (!sum_.defined()) return;
  backend_for(buffers_.device()).copy_bytes(sum_, buffers_.gradients());
  const auto& slots = buffers_.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (has_[i]) slots[i].parameter.leaf().mark_written();
    has_[i] = 0;
  }
}

void LossGradients::clear() { std::ranges::fill(has_, 0); }

}  // namespace tandem::optim
