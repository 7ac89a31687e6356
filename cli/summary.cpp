#include "models/summary.h"

#include <fmt/core.h>

#include "cli/advice.h"
#include "cli/commands.h"
#include "config/task.h"
#include "core/error.h"
#include "core/memory_limit.h"
#include "core/shapes_backend.h"
#include "core/text_width.h"
#include "core/units.h"
#include "files/json_text.h"
#include "files/output.h"
#include "models/advice.h"
#include "nn/device.h"
#include "report/table.h"
#include "runs/checkpoints.h"
#include "runs/run_data.h"
#include "train/footprint.h"
#include "train/setup.h"

namespace tandem::cli {

namespace {

constexpr Index kTimedBatch = 16;

void print_layers(const models::ModelSummary& summary) {
  std::size_t names = 5, kinds = 5, shapes = 6;
  const auto indented = [](const models::LayerSummary& layer) {
    const std::string own = layer.name.substr(layer.name.rfind('.') + 1);
    return std::string(static_cast<std::size_t>(2 * layer.depth), ' ') +
           (layer.name.empty() ? "(model)" : own);
  };
  for (const auto& layer : summary.layers) {
    names = std::max(names, text_width(indented(layer)));
    kinds = std::max(kinds, text_width(layer.description));
    shapes = std::max(shapes, text_width(to_string(layer.output)));
  }
  const std::string header =
      fmt::format("{}  {}  {}", padded("name", names), padded("layer", kinds), padded("output", shapes));
  output::print("{}  {:>12}  {:>10}\n", header, "parameters", "FLOP");
  for (const auto& layer : summary.layers)
    output::print("{}  {}  {}  {:>12}  {:>10}\n", padded(indented(layer), names),
                  padded(layer.description, kinds),
                  padded(layer.calls > 0 ? to_string(layer.output) : "not used", shapes), layer.parameters,
                  layer.flop > 0 ? count_text(static_cast<double>(layer.flop)) : "");
}

config::Json json_of(const models::ModelSummary& summary, const train::Footprint& footprint) {
  config::Json layers = config::Json::array();
  for (const auto& layer : summary.layers) {
    config::Json one{{"name", layer.name},
                     {"layer", layer.description},
                     {"parameters", layer.parameters},
                     {"flop", layer.flop}};
    if (layer.calls > 0) one["output"] = std::vector<Index>(layer.output.begin(), layer.output.end());
    layers.push_back(std::move(one));
  }
  config::Json json{{"parameters", summary.parameters},
                    {"trained", footprint.trainable},
                    {"flop", summary.flop}};  // per sample, forward
  if (summary.steps > 0) json["steps"] = summary.steps;
  json["saved_bytes"] = summary.saved_bytes;  // per sample
  json["memory"] = train::to_json(footprint);
  json["layers"] = std::move(layers);
  return json;
}

// Vocabularies have at most the configured number of words; the actual number comes from the data or the run.
tasks::DataPtr data_of(const std::string& given, const config::Config& config) {
  if (runs::RunDirectory::is_run(given)) {
    const auto run = runs::RunDirectory::open(given);
    if (runs::has_checkpoint(run)) return config::recall_data(config, runs::weights_of(run, "last").data);
  }
  if (!config::resolved(config)["data"].contains("vocabulary")) return runs::describe_data(config);
  try {
    return runs::open_data(config, [](const std::string&) {});
  } catch (const UserError& error) {
    tasks::DataPtr described = runs::describe_data(config);
    output::remark(
        "tandem: note: the data cannot be read; the vocabulary is assumed to have its maximum size: {}\n",
        error.what());
    return described;
  }
}

}  // namespace

int summary(const ShowArguments& arguments) {
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  train::prepare_machine(loaded);
  const tasks::DataPtr data = data_of(arguments.config, loaded.config);
  const Index batch = loaded.config.data.batch_size, timed = std::min<Index>(batch, kTimedBatch);
  const auto summary_on = [&](Device device) {
    const nn::BuildDevice building(device);
    return summarised(*config::make_task(loaded, data), timed);
  };
  const models::ModelSummary summary = summary_on(kShapes);
  const train::Footprint footprint = train::footprint_of(loaded, data);
  if (arguments.json) {
    output::print("{}\n", files::json_text(json_of(summary, footprint)));
    return 0;
  }
  print_layers(summary);

  const auto bytes = [](std::int64_t count) { return bytes_text(static_cast<double>(count)); };
  output::print("\nparameters       {} ({} trained)\n", summary.parameters, footprint.trainable);
  output::print("FLOP per sample  {} forward, about {} for a training step{}\n",
                count_text(static_cast<double>(summary.flop)),
                count_text(3.0 * static_cast<double>(summary.flop)),
                summary.steps > 0 ? fmt::format("; a sample has {} steps", summary.steps) : "");
  output::print("memory           {}\n", train::to_string(footprint));
  if (const std::string recompute = train::recompute_text(footprint); !recompute.empty())
    output::print("                 {}\n", recompute);
  output::print("                 saved for backward {} per sample, {} per batch of {}\n",
                bytes(summary.saved_bytes), bytes(batch * summary.saved_bytes), batch);
  if (data->training_samples() == 0)  // the data is only described
    for (const std::string& note : footprint.notes) output::print("{}\n", note);
  // Timing needs real weights and a forward pass.
  const std::int64_t needed = summary.parameter_bytes + timed * summary.saved_bytes;
  const bool fits = static_cast<std::size_t>(needed) <= host_memory_limit();
  print_advice(summary, batch, fits ? std::optional(models::product_share(summary_on({}))) : std::nullopt);
  return 0;
}

}  // namespace tandem::cli
