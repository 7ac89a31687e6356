// The learning rates of the applied steps ahead, where the decision of a step looks them up.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "optim/schedules.h"

namespace tandem::optim {

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

 private:
  Schedule schedule_;
  Tensor host_, table_;
  std::int64_t end_ = 0;
};

}  // namespace tandem::optim
