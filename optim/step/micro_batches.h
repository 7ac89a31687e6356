// Micro-batches of the current step: calls of backward per loss, and their weights.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/step_state.h"

namespace tandem::optim {

// Weight of a micro-batch in its step. Its loss is a sum over the micro-batch divided by `divisor`; the loss
// of the step is the sum over all micro-batches divided by the sum of their `count`s, or by 1 if nothing
// counts. Both are numbers of examples, tokens or the like. They differ only for a loss that divides by 1
// when its micro-batch counts 0.
struct PartWeight {
  PartWeight(double samples = 1.0) : count(samples), divisor(samples) {}
  PartWeight(double count_, double divisor_) : count(count_), divisor(divisor_) {}
  double count, divisor;
  friend bool operator==(const PartWeight&, const PartWeight&) = default;
};

// Weights are in units of the first non-zero divisor unless a unit is given: a step of equal micro-batches
// sums whole numbers, and its seeds are the scale itself.
class MicroBatches {
 public:
  // At most `accumulate` calls for each of `losses` losses. `unit`: the divisor whose seed is the scale
  // itself.
  MicroBatches(int accumulate, int losses, std::optional<double> unit = {});

  int count() const { return count_; }  // of all losses
  bool ready() const { return count_ == accumulate_ * static_cast<int>(calls_.size()); }
  double reference() const { return reference_; }  // the unit

  // Whether the next call is the last possible one.
  bool last() const { return count_ + 1 == accumulate_ * static_cast<int>(calls_.size()); }

  // Throws UserError for an unknown loss, and when the loss has had all of its calls.
  void check_room(int loss_index) const;
  // The weight of the next call, in units; counted by `add`. Throws UserError unless both numbers are finite
  // and at least 0.
  PartWeight weigh(PartWeight samples);
  void add(PartWeight weight, int loss_index);
  // Divisor of the summed gradients, in units: the largest count of any loss, or 1 sample if nothing counts.
  double weight() const { return total_or_one(heaviest()); }
  // The same for the summed counts of several processes.
  double total_or_one(double count) const { return count > 0.0 ? count : 1.0 / reference_; }
  void clear();

  // As f64 values for a file: micro-batches, samples of weight 1, non-finite values and sum of losses in
  // `gathered`, and for each loss its calls and their weight.
  std::vector<double> values(const StepState& gathered) const;
  // Throws UserError "[state] …" for values that no step reaches. There are as many as values() gives.
  void check(std::span<const double> values, const char* name) const;
  // Loads checked values; writes their part of `gathered`.
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
  bool has_reference_ = false;  // of this step, if no unit is given
};

}  // namespace tandem::optim
