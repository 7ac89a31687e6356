// The micro-batches of the step under way: calls of backward, for which loss, and what they weigh.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/step_state.h"

namespace tandem::optim {

// The share of a micro-batch in its step. Its loss is a sum over the micro-batch divided by `divisor`; the
// loss of the step is the sum of all of them divided by the sum of their `count`s, or by 1 where nothing
// counts. Both are numbers of examples, tokens or the like, and are the same number unless a loss divides by
// 1 where its micro-batch counts 0.
struct PartWeight {
  PartWeight(double samples = 1.0) : count(samples), divisor(samples) {}
  PartWeight(double count_, double divisor_) : count(count_), divisor(divisor_) {}
  double count, divisor;
  friend bool operator==(const PartWeight&, const PartWeight&) = default;
};

// Weights are in units of the first call's divisor (the first that is not 0) unless another unit is given, so
// that a step of equal micro-batches adds up whole numbers and its seeds are the scale itself.
class MicroBatches {
 public:
  // At most `accumulate` calls for each of `losses` losses.
  // `unit`: the divisor of a loss whose seed is the scale itself.
  MicroBatches(int accumulate, int losses, std::optional<double> unit = {});

  int count() const { return count_; }  // of all losses
  bool ready() const { return count_ == accumulate_ * static_cast<int>(calls_.size()); }
  double reference() const { return reference_; }  // the unit

  // Whether the call that is due is the last that there can be.
  bool last() const { return count_ + 1 == accumulate_ * static_cast<int>(calls_.size()); }

  // Throws UserError for a loss that there is not, and when it has had all of its calls.
  void check_room(int loss_index) const;
  // The weight of the call that is due, in units; it does not count before `add`. Throws UserError unless
  // both numbers are finite and at least 0.
  PartWeight weigh(PartWeight samples);
  void add(PartWeight weight, int loss_index);
  // The divisor of the sum of the gradients, in units: the count of the loss that has most, or 1 sample where
  // nothing counts.
  double weight() const { return total_or_one(heaviest()); }
  // The same for the counts of several processes, added up.
  double total_or_one(double count) const { return count > 0.0 ? count : 1.0 / reference_; }
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
  bool has_reference_ = false;  // of this step, where no unit is given
};

}  // namespace tandem::optim
