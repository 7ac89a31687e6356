// Calibration of the loss scale before the first step of a run (precision.scaler.mode calibrated, or
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

// Forward and backward of the first batches of training in f32, on a model of its own with the weights that
// training starts from, which needs memory beside the run's; nothing of the run is changed. Throws UserError
// for a batch whose loss or gradients are not finite, for segments of a task of several phases, and as
// amp::calibration_of or amp::segmented.
amp::Calibration calibrate(const config::Loaded& loaded, const tasks::DataPtr& data, Device device);
// The same of made-up batches and new weights, for a benchmark, which has no data.
amp::Calibration calibrate_made_up(const config::Loaded& loaded, Device device);

nlohmann::ordered_json to_json(const amp::Calibration& calibration);
// The segments of what to_json() wrote, each relative to the first. Throws UserError, naming `file`, where
// there are none, or it is damaged.
std::vector<amp::SegmentedLossScale::Segment> segments_in(const std::string& text, const std::string& file);
// Hands a step what every parameter's gradients are scaled by beside the loss scale.
void set_segments(optim::Step& step, const amp::SegmentedLossScale& borders);

}  // namespace tandem::train
