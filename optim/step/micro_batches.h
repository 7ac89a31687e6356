// The micro-batches of the step under way: calls of backward, for which loss, and what they weigh.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/step_state.h"

namespace tandem::optim {

// Weights are in units of the first call's samples (the first that has any) unless another unit is given, so
// that a step of equal micro-batches adds up whole numbers and its seeds are the scale itself.
class MicroBatches {
 public:
  // At most `accumulate` calls for each of `losses` losses.
  // `unit`: samples of weight 1.
  MicroBatches(int accumulate, int losses, std::optional<double> unit = {});

  int count() const { return count_; }  // of all losses
  bool ready() const { return count_ == accumulate_ * static_cast<int>(calls_.size()); }
  double reference() const { return reference_; }  // samples of weight 1

  // Whether the call that is due is the last that there can be.
  bool last() const { return count_ + 1 == accumulate_ * static_cast<int>(calls_.size()); }

  // Throws UserError for a loss that there is not, and when it has had all of its calls.
  void check_room(int loss_index) const;
  // The weight of the call that is due; it does not count before `add`. Throws UserError unless `samples` is
  // finite and at least 0.
  double weigh(double samples);
  void add(double weight, int loss_index);
  // What the sum of the gradients is divided by: the weight of the loss that has most; a sum of nothing stays
  // 0.
  double weight() const;
  void clear();

  // As f64 values for a file: micro-batches, samples of weight 1, what `gathered` says of non-finite values
  // and of the sum of the losses, and for each loss its calls and their weight.
  std::vector<double> values(const StepState& gathered) const;
  // Throws UserError "[state] …" for values that no step comes to. There are as many as values() gives.
  void check(std::span<const double> values, const char* name) const;
  // Takes checked values; gives `gathered` its part.
  void take(std::span<const double> values, StepState& gathered);

 private:
  struct Calls {
    int count = 0;
    double weight = 0.0;
  };
  double heaviest() const;

  int accumulate_;
  std::vector<Calls> calls_;  // one for each loss
  std::optional<double> unit_;
  int count_ = 0;
  double reference_ = 1.0;
};

}  // namespace tandem::optim
