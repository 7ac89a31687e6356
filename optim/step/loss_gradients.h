// Gradients of several losses with a scale each (ScalerScope::loss).
#pragma once

#include <vector>

#include "core/step_state.h"
#include "optim/flat_buffers.h"
#include "optim/loss_scaler.h"

namespace tandem::optim {

// Sum over the losses: each loss's gradients are divided by its own scale and added; the leaves receive the
// sum at the end of a step.
class LossGradients {
 public:
  // Both must outlive it.
  LossGradients(const FlatBuffers& buffers, const LossScaler& scaler);

  // Moves the gradients of loss number `loss_index` off the leaves. Non-finite values count in `state` (a
  // StepState in device memory) and as an overflow of the loss's scale.
  void add(int loss_index, const Tensor& state);
  // Puts the sum on the leaves of slots with a gradient.
  void give_back();
  void clear();

  // The sum so far in the layout of the flat buffers, and which slots have one.
  const Tensor& sum();
  bool has(std::size_t slot) const { return has_[slot] != 0; }
  // Continues with a sum that the caller has written to sum().
  void resume(std::vector<char> has) { has_ = std::move(has); }

 private:
  const FlatBuffers& buffers_;
  const LossScaler& scaler_;
  Tensor sum_;  // allocated on first use
  std::vector<char> has_;
  std::vector<UpdateRange> fresh_, further_;
};

}  // namespace tandem::optim
