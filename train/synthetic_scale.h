// The loss scale of a benchmark, where precision.scaler has it calibrated, or in segments: that of made-up
// batches, since a benchmark has no data. So its steps do what those of a run do.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "amp/segmented_loss_scale.h"
#include "config/load.h"
#include "train/learners.h"

namespace tandem::train {

class SyntheticScale {
 public:
  // As text, so that ranks may have that of the first; "" where the configuration asks for no calibration.
  // Throws as calibrate().
  static std::string find(const config::Loaded& loaded, Device device);

  // Sets the scale of the learners of `task` to what was found.
  SyntheticScale(const std::string& found, tasks::Task& task, Learners& learners);

  // For their runners, which it outlives; null without segments.
  const amp::SegmentedLossScale* borders() const { return borders_.get(); }
  std::size_t segments() const { return segments_; }  // 1 without any

 private:
  std::size_t segments_ = 1;
  std::unique_ptr<amp::SegmentedLossScale> borders_;
};

}  // namespace tandem::train
