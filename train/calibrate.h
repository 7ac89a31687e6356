// Calibration of the loss scale before the first step of a run (precision.scaler.mode calibrated or
// segments).
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "amp/calibration.h"
#include "amp/segmented_loss_scale.h"
#include "config/load.h"
#include "optim/step.h"
#include "tasks/task.h"
#include "train/learners.h"

namespace tandem::train {

// Computes forward and backward of the first training batches in f32, on a separate model with the run's
// initial weights. It needs memory for that model and changes nothing of the run. Throws UserError for a
// batch whose loss or gradients are not finite, for segments of a task with several phases, and as
// amp::calibration_of or amp::segmented.
amp::Calibration calibrate(const config::Loaded& loaded, const tasks::DataPtr& data, Device device);
// The same with synthetic batches and new weights, for benchmarks, which have no data.
amp::Calibration calibrate_synthetic(const config::Loaded& loaded, Device device);

nlohmann::ordered_json to_json(const amp::Calibration& calibration);
// The segments in the output of to_json(), each relative to the first. Throws UserError that names `file` if
// there are none or the text is damaged.
std::vector<amp::SegmentedLossScale::Segment> segments_in(const std::string& text, const std::string& file);
// Sets the power of two by which the step scales each parameter's gradients in addition to the loss scale.
void set_segments(optim::Step& step, const amp::SegmentedLossScale& borders);

// The loss scale of a benchmark if precision.scaler is calibrated or segments. It is calibrated on synthetic
// batches, since a benchmark has no data; its steps then do the same work as those of a run.
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
