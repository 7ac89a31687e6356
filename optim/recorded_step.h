// Work of a step as a device has recorded it; made by Step::record_backward and Step::record_apply.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend.h"

namespace tandem::optim {

class RecordedBackward {
 private:
  friend class Step;
  std::unique_ptr<Recording> work_;
  int micro_batch_ = 0;  // its number in the step
  double samples_ = 1.0;
  double weight_ = 1.0;                      // in units of the first micro-batch's samples
  std::vector<char> has_gradient_;           // by slot of the flat buffers
  std::vector<std::int64_t> counter_steps_;  // what its forward adds to each counter of the module
};

class RecordedApply {
 private:
  friend class Step;
  std::unique_ptr<Recording> work_;
  int micro_batches_ = 0;
  double weight_ = 0.0;             // of all of them, in units of the first one's samples
  std::vector<char> has_gradient_;  // by slot
};

}  // namespace tandem::optim
