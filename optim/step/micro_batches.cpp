#include "optim/step/micro_batches.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::optim {

MicroBatches::MicroBatches(int accumulate, int losses, std::optional<double> unit)
    : accumulate_(accumulate),
      calls_(static_cast<std::size_t>(losses)),
      unit_(unit),
      reference_(unit.value_or(1.0)) {}

void MicroBatches::check_room(int loss_index) const {
  const int losses = static_cast<int>(calls_.size());
  require(loss_index >= 0 && loss_index < losses, "step", "loss number {} of {} (scaler.losses, scope loss)",
          loss_index, losses);
  const Calls& calls = calls_[static_cast<std::size_t>(loss_index)];
  const bool room = calls.count < accumulate_;
  require(room, "step", "backward was called {} times{}, the maximum with accumulate {}: call apply()",
          calls.count, losses > 1 ? fmt::format(" for loss number {}", loss_index) : "", accumulate_);
}

PartWeight MicroBatches::weigh(PartWeight samples) {
  for (const double number : {samples.count, samples.divisor})
    require(std::isfinite(number) && number >= 0.0, "step",
            "a micro-batch must count at least 0 samples, got {}", number);
  if (samples.divisor > 0.0 && !has_reference_ && !unit_) reference_ = samples.divisor;
  return {samples.count / reference_, samples.divisor / reference_};
}

void MicroBatches::add(PartWeight weight, int loss_index) {
  Calls& calls = calls_[static_cast<std::size_t>(loss_index)];
  ++count_;
  ++calls.count;
  calls.weight += weight.count;
  has_reference_ = has_reference_ || weight.divisor > 0.0;
}

double MicroBatches::heaviest() const { return std::ranges::max_element(calls_, {}, &Calls::weight)->weight; }

void MicroBatches::clear() {
  count_ = 0;
  has_reference_ = false;
  calls_.assign(calls_.size(), {});
}

std::vector<double> MicroBatches::values(const StepState& gathered) const {
  std::vector<double> values{static_cast<double>(count_), reference_,
                             static_cast<double>(gathered.non_finite), gathered.loss_sum};
  for (const Calls& calls : calls_) {
    values.push_back(static_cast<double>(calls.count));
    values.push_back(calls.weight);
  }
  return values;
}

void MicroBatches::check(std::span<const double> values, const char* name) const {
  const auto count_up_to = [](double value, double limit) {
    return value >= 0.0 && value <= limit && value == std::floor(value);
  };
  const int most = accumulate_ * static_cast<int>(calls_.size());
  require(count_up_to(values[0], most), "state", "saved after {} micro-batches of a step, this one takes {}",
          values[0], most);
  bool sound = values[1] > 0.0 && std::isfinite(values[1]) && count_up_to(values[2], INT32_MAX);
  for (std::size_t i = 4; i + 1 < values.size(); i += 2) {
    require(!count_up_to(values[i], INT32_MAX) || values[i] <= accumulate_, "state",
            "saved after {} micro-batches of a step, accumulate is {}", values[i], accumulate_);
    sound =
        sound && count_up_to(values[i], accumulate_) && values[i + 1] >= 0.0 && std::isfinite(values[i + 1]);
  }
  require(sound, "state",
          "{} is damaged: counts and weights of micro-batches must be finite and not negative", name);
}

void MicroBatches::take(std::span<const double> values, StepState& gathered) {
  count_ = static_cast<int>(values[0]);
  reference_ = values[1];
  gathered.non_finite = static_cast<std::int32_t>(values[2]);
  gathered.loss_sum = values[3];
  for (std::size_t i = 0; i < calls_.size(); ++i)
    calls_[i] = {static_cast<int>(values[4 + 2 * i]), values[5 + 2 * i]};
  has_reference_ = heaviest() > 0.0;
}

}  // namespace tandem::optim
