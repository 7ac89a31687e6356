#include "train/calibrate.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/engine.h"
#include "config/task.h"
#include "core/backend.h"
#include "core/error.h"
#include "data/loader.h"
#include "train/perturbation.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::train {

namespace {

constexpr std::int64_t kUsualBatches = 4;

}  // namespace

amp::Calibration calibrate(const config::Loaded& loaded, const tasks::DataPtr& data, Device device) {
  const config::Config& config = loaded.config;
  const auto batches = static_cast<int>(config.precision.scaler.batches.value_or(kUsualBatches));
  const auto seed = static_cast<std::uint64_t>(config.seed);
  const auto task = config::make_task(loaded, data);
  nn::Module& model = task->model();
  initialise_from(config, model);
  perturb(model, seed, config.init_ulps);
  model.to(device);
  model.train();
  datasets::Loader loader(task->training_source(device));
  const std::size_t phases = task->phases().size();
  amp::GradientCollector collector(model);
  for (int i = 0; i < batches; ++i) {
    auto batch = loader.next();
    if (!batch) batch = loader.next();  // the next epoch
    require(batch.has_value(), "scaler", "calibration: the training data has no batch");
    for (std::size_t phase = 0; phase < phases; ++phase) {
      const Tensor loss =
          loss_of_phase(*task, phase, *batch, {.seed = seed, .step = static_cast<std::uint32_t>(i)});
      require(std::isfinite(loss.item()), "scaler",
              "calibration: the loss of batch {} of {} is {} in FP32; look at the data and the weights, or "
              "set precision.scaler to dynamic",
              i + 1, batches, loss.item());
      backward(loss);
    }
    const auto lost = collector.activations().non_finite() + collector.weights().non_finite();
    require(lost == 0, "scaler",
            "calibration: {} gradients of batch {} of {} are not finite in FP32; look at the data and the "
            "weights, or set precision.scaler to dynamic",
            lost, i + 1, batches);
    model.clear_gradients();
  }
  const amp::Calibration found = amp::calibration_of(collector.layers(), batches);
  backend_for(device).reset_peak_memory();  // the figure of a run is that of its own steps
  return found;
}

nlohmann::ordered_json to_json(const amp::Calibration& calibration) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const amp::LayerWindow& layer : calibration.layers)
    layers.push_back({{"name", layer.name}, {"window", {layer.window.low, layer.window.high}}});
  return {{"batches", calibration.batches},
          {"window", {calibration.window.low, calibration.window.high}},
          {"lowest", calibration.lowest},
          {"highest", calibration.highest},
          {"layers", layers}};
}

}  // namespace tandem::train
