// Recorded work of a step (device graphs), made by Step::record_backward and Step::record_apply.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/leaf.h"
#include "core/device_services.h"
#include "nn/module.h"
#include "optim/step/shard_accumulator.h"

namespace tandem::optim {

// Reads the parameters of every module that its forward ran, including those of other steps; they must
// outlive it.
class RecordedBackward {
 private:
  friend class Step;
  std::unique_ptr<Recording> work_;
  int micro_batch_ = 0;  // its number in the step
  int loss_index_ = 0;
  PartWeight samples_, weight_;                    // as given; in units
  std::vector<char> had_gradient_, has_gradient_;  // by slot, before and after
  // Counter increments of its forward, and the working copies that it reads of other steps' weights.
  std::vector<std::pair<nn::Counter, std::int64_t>> counts_;
  std::vector<std::pair<Parameter, DType>> copies_;
};

class RecordedApply {
 private:
  friend class Step;
  std::unique_ptr<Recording> work_;
  int micro_batches_ = 0;
  double weight_ = 0.0;                // of all micro-batches, in units
  std::optional<ShardTotals> shards_;  // with shards: the totals, and whether gradients were reduced
  bool complete_ = false;
  std::vector<char> has_gradient_;  // by slot
};

}  // namespace tandem::optim
