// Calibration of the loss scale before the first step of a run (precision.scaler.mode calibrated or
// segments).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "amp/calibration.h"
#include "amp/segmented_loss_scale.h"
#include "config/load.h"
#include "optim/step.h"
#include "tasks/task.h"

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

}  // namespace tandem::train
