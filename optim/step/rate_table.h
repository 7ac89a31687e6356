// Learning rates of the next applied steps, read by the device when it decides a step.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor.h"
#include "optim/schedules.h"

namespace tandem::optim {

// Plateau factor on the schedule: rate times `factor`, at least `least`, at most the scheduled rate.
struct RateFactor {
  double factor = 1.0, least = 0.0;
  friend bool operator==(const RateFactor&, const RateFactor&) = default;
};

// A schedule is a function of the number of applied steps, which the host learns late. So a window of it lies
// on the device, in the form that Backend::decide takes.
class RateTable {
 public:
  RateTable(Schedule schedule, Device device);

  const Tensor& on_device() const { return table_; }
  // Whether the table covers the step after `attempted` ones, however many of them were applied.
  bool covers(std::int64_t attempted) const { return attempted < end_; }
  // Writes the rates from step `applied` on. No step may still read the table.
  void fill(std::int64_t attempted, std::int64_t applied);
  // Invalidates the table.
  void expire() { end_ = 0; }
  // Holds for the next steps.
  void set_factor(const RateFactor& factor);
  // A table for one step after `attempted` ones with `times` its rate. `applied`: the number applied of all
  // but the last. Only the last step may still be running.
  const Tensor& once(std::int64_t attempted, std::int64_t applied, double times);

 private:
  // A table of few entries, for steps of even and of odd number.
  struct Short {
    Tensor host, table;
  };
  double rate(std::int64_t applied) const;

  Schedule schedule_;
  RateFactor factor_;
  Tensor host_, table_;
  std::array<Short, 2> short_;  // allocated on first use
  std::int64_t end_ = 0;
};

}  // namespace tandem::optim
