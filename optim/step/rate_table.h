// The learning rates of the applied steps ahead, where the decision of a step looks them up.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor.h"
#include "optim/schedules.h"

namespace tandem::optim {

// What evaluations make of a schedule: its rate times `factor`, but not below `least`, nor above what the
// schedule says.
struct RateFactor {
  double factor = 1.0, least = 0.0;
  friend bool operator==(const RateFactor&, const RateFactor&) = default;
};

// A schedule is a function of the count of applied steps, which the host learns late: a window of it lies on
// the device, as Backend::decide takes it.
class RateTable {
 public:
  RateTable(Schedule schedule, Device device);

  const Tensor& on_device() const { return table_; }
  // Whether the table serves the step after `attempted` ones, however many of them were applied.
  bool covers(std::int64_t attempted) const { return attempted < end_; }
  // Puts the rates of the steps from `applied` on into the table. No step may still read it.
  void fill(std::int64_t attempted, std::int64_t applied);
  // The table serves no step any more.
  void expire() { end_ = 0; }
  // Of the steps from now on.
  void set_factor(const RateFactor& factor);
  // A table for one step after `attempted` ones, whose rate is `times` what it would be: `applied` were
  // applied of all but the last. No step but the last one may still be under way.
  const Tensor& once(std::int64_t attempted, std::int64_t applied, double times);

 private:
  // A table of few entries, by steps of even and odd number.
  struct Short {
    Tensor host, table;
  };
  double rate(std::int64_t applied) const;

  Schedule schedule_;
  RateFactor factor_;
  Tensor host_, table_;
  std::array<Short, 2> short_;  // made when there is a first use
  std::int64_t end_ = 0;
};

}  // namespace tandem::optim
