// Calibration of the loss scale before the first step of a run (precision.scaler.mode calibrated).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "amp/calibration.h"
#include "config/load.h"
#include "tasks/task.h"

namespace tandem::train {

// Forward and backward of the first batches of training in f32, on a model of its own with the weights that
// training starts from, which needs memory beside the run's; nothing of the run is changed. Throws UserError
// for a batch whose loss or gradients are not finite, and as calibration_of.
amp::Calibration calibrate(const config::Loaded& loaded, const tasks::DataPtr& data, Device device);

nlohmann::ordered_json to_json(const amp::Calibration& calibration);

}  // namespace tandem::train
