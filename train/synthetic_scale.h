// The loss scale of a benchmark if precision.scaler is calibrated or segments. It is calibrated on synthetic
// batches, since a benchmark has no data; its steps then do the same work as those of a run.
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
  // Calibrates; returns text, so that ranks can share the first rank's. "" if the configuration asks for no
  // calibration. Throws as calibrate().
  static std::string find(const config::Loaded& loaded, Device device);

  // Sets the scale of the task's learners.
  SyntheticScale(const std::string& found, tasks::Task& task, Learners& learners);

  // For the step runners, which must not outlive it; null without segments.
  const amp::SegmentedLossScale* borders() const { return borders_.get(); }
  std::size_t segments() const { return segments_; }  // 1 without segments

 private:
  std::size_t segments_ = 1;
  std::unique_ptr<amp::SegmentedLossScale> borders_;
};

}  // namespace tandem::train
