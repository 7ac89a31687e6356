// Gradients of several losses that have a scale each (ScalerScope::loss).
#pragma once

#include <vector>

#include "core/step_state.h"
#include "optim/flat_buffers.h"
#include "optim/loss_scaler.h"

namespace tandem::optim {

// What a loss leaves on the leaves is divided by its own scale and added to the sum over the losses, which
// the leaves get back at the end of a step.
class LossGradients {
 public:
  // Both must outlive it.
  LossGradients(const FlatBuffers& buffers, const LossScaler& scaler);

  // Takes the gradients of loss number `loss_index` off the leaves. What is not finite counts in `state` (a
  // StepState in device memory) and as an overflow of the loss's scale.
  void add(int loss_index, const Tensor& state);
  // Puts the sum on the leaves of the slots that have one.
  void give_back();
  void clear();

  // The sum so far, laid out as the flat buffers; and which slots have one.
  const Tensor& sum();
  bool has(std::size_t slot) const { return has_[slot] != 0; }
  // Goes on with the sum that the caller has put into sum().
  void resume(std::vector<char> has) { has_ = std::move(has); }

 private:
  const FlatBuffers& buffers_;
  const LossScaler& scaler_;
  Tensor sum_;  // absent before it is needed
  std::vector<char> has_;
  std::vector<UpdateRange> fresh_, further_;
};

}  // namespace tandem::optim
