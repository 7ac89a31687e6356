#include "train/calibrate.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/engine.h"
#include "config/task.h"
#include "core/backend.h"
#include "core/error.h"
#include "data/loader.h"
#include "files/json_text.h"
#include "runs/run_data.h"
#include "train/perturbation.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::train {

namespace {

constexpr std::int64_t kUsualBatches = 4;

// Collector of gradients: by layer, or along a chain of segments.
class Gradients {
 public:
  Gradients(nn::Module& model, bool chained) {
    chained ? void(chain_.emplace(model)) : void(layers_.emplace(model));
  }

  void backward(const Tensor& loss) {
    if (chain_) chain_->begin_backward(loss);
    tandem::backward(loss);
    if (chain_) chain_->end_backward();
  }
  std::int64_t non_finite() const {
    std::int64_t sum = 0;
    for (const auto& layer : layers()) sum += layer.activations.non_finite() + layer.weights.non_finite();
    return sum;
  }
  amp::Calibration calibration(int batches, const optim::ScalerOptions& scaler) const {
    return chain_ ? amp::segmented(layers(), chain_->links(), batches, scaler)
                  : amp::calibration_of(layers(), batches);
  }

 private:
  std::vector<amp::GradientCollector::Layer> layers() const {
    return chain_ ? chain_->layers() : layers_->layers();
  }

  std::optional<amp::GradientCollector> layers_;
  std::optional<amp::ChainCollector> chain_;
};

using NextBatch = std::function<datasets::Batch()>;

// `task` is not the run's; its model has its initial weights.
amp::Calibration calibrate_on(const config::Config& config, tasks::Task& task, Device device,
                              const NextBatch& next) {
  const auto batches = static_cast<int>(config.precision.scaler.batches.value_or(kUsualBatches));
  const auto seed = static_cast<std::uint64_t>(config.seed);
  nn::Module& model = task.model();
  perturb(model, seed, config.init_ulps);
  model.to(device);
  model.train();
  const std::size_t phases = task.phases().size();
  const bool segments = config.precision.scaler.mode == "segments";
  require(!segments || phases == 1, "scaler",
          "segments apply to a task with one backward pass, and task {} has {} that share a scale; set "
          "precision.scaler to "
          "calibrated or dynamic",
          config.task.name(), phases);
  Gradients gradients(model, segments);
  for (int i = 0; i < batches; ++i) {
    const datasets::Batch batch = next();
    for (std::size_t phase = 0; phase < phases; ++phase) {
      const Tensor loss =
          loss_of_phase(task, phase, batch, {.seed = seed, .step = static_cast<std::uint32_t>(i)});
      require(std::isfinite(loss.item()), "scaler",
              "calibration: the loss of batch {} of {} is {} in FP32; check the data and the weights, or "
              "set precision.scaler to dynamic",
              i + 1, batches, loss.item());
      gradients.backward(loss);
    }
    const auto lost = gradients.non_finite();
    require(lost == 0, "scaler",
            "calibration: {} gradients of batch {} of {} are not finite in FP32; check the data and the "
            "weights, or set precision.scaler to dynamic",
            lost, i + 1, batches);
    model.clear_gradients();
  }
  const amp::Calibration found = gradients.calibration(batches, precision_of(config).scaler);
  backend_for(device).reset_peak_memory();  // the run reports the peak of its own steps
  return found;
}

}  // namespace

amp::Calibration calibrate(const config::Loaded& loaded, const tasks::DataPtr& data, Device device) {
  const auto task = config::make_task(loaded, data);
  initialise_from(loaded.config, *task);
  datasets::Loader loader(task->training_source(device));
  return calibrate_on(loaded.config, *task, device, [&] {
    auto batch = loader.next();
    if (!batch) batch = loader.next();  // the next epoch
    require(batch.has_value(), "scaler", "calibration: the training data has no batch");
    return *std::move(batch);
  });
}

amp::Calibration calibrate_synthetic(const config::Loaded& loaded, Device device) {
  const config::Config& config = loaded.config;
  const auto task = config::make_task(loaded, runs::describe_data(config));
  auto seed = static_cast<std::uint64_t>(config.seed);
  return calibrate_on(config, *task, device,
                      [&] { return task->synthetic_batch(config.data.batch_size, seed++, device); });
}

nlohmann::ordered_json to_json(const amp::Calibration& calibration) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const amp::LayerWindow& layer : calibration.layers)
    layers.push_back({{"name", layer.name}, {"window", {layer.window.low, layer.window.high}}});
  nlohmann::ordered_json json{{"batches", calibration.batches},
                              {"window", {calibration.window.low, calibration.window.high}},
                              {"lowest", calibration.lowest},
                              {"highest", calibration.highest},
                              {"layers", layers}};
  for (const amp::ScaleSegment& segment : calibration.segments)
    json["segments"].push_back({{"border", segment.border},
                                {"log2_scale", segment.log2_scale},
                                {"window", {segment.window.low, segment.window.high}},
                                {"lowest", segment.lowest},
                                {"highest", segment.highest},
                                {"parameters", segment.parameters}});
  return json;
}

std::vector<amp::SegmentedLossScale::Segment> segments_in(const std::string& text, const std::string& file) {
  std::vector<amp::SegmentedLossScale::Segment> segments;
  try {
    const auto json = nlohmann::json::parse(text);
    const auto found = json.find("segments");
    require(
        found != json.end() && !found->empty(), "scaler",
        "{} has no segments: the run did not start with precision.scaler segments; resume with the scaler "
        "that it started with, or start a new run",
        file);
    for (const auto& each : *found)
      segments.push_back(
          {.border = each.at("border"),
           .log2_scale = each.at("log2_scale").get<int>() - found->at(0).at("log2_scale").get<int>(),
           .parameters = each.at("parameters")});
  } catch (const nlohmann::json::exception& error) {
    throw UserError("scaler",
                    fmt::format("{} is damaged ({}); start a new run", file, files::json_reason(error)));
  }
  return segments;
}

void set_segments(optim::Step& step, const amp::SegmentedLossScale& borders) {
  std::vector<int> scales;
  for (const optim::FlatBuffers::Slot& slot : step.buffers().slots())
    scales.push_back(borders.log2_scale_of(slot.parameter));
  step.set_segment_scales(scales);
}

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
