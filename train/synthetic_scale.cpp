#include "train/synthetic_scale.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "files/json_text.h"
#include "train/calibrate.h"
#include "train/setup.h"

namespace tandem::train {

std::string SyntheticScale::find(const config::Loaded& loaded, Device device) {
  const std::string& mode = loaded.config.precision.scaler.mode;
  if (mode != "calibrated" && mode != "segments") return "";
  const amp::Calibration calibration = calibrate_synthetic(loaded, device);
  nlohmann::ordered_json json = to_json(calibration);
  json["start"] = amp::start_of(calibration, precision_of(loaded.config).scaler);
  return files::json_text(json);
}

SyntheticScale::SyntheticScale(const std::string& found, tasks::Task& task, Learners& learners) {
  if (found.empty()) return;
  const auto json = nlohmann::json::parse(found);
  learners.set_loss_scale(std::exp2(json.at("start").get<int>()));
  if (!json.contains("segments")) return;
  const auto segments = segments_in(found, "the calibration on synthetic batches");
  segments_ = segments.size();
  borders_ = std::make_unique<amp::SegmentedLossScale>(task.model(), segments);
  set_segments(*learners.front().step, *borders_);
}

}  // namespace tandem::train
