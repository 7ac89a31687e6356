#include "models/summary.h"

#include <fmt/core.h>

#include "cli/advice.h"
#include "cli/commands.h"
#include "core/memory_limit.h"
#include "core/shapes_backend.h"
#include "core/units.h"
#include "files/output.h"
#include "models/advice.h"
#include "nn/device.h"
#include "report/table.h"
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
    names = std::max(names, report::text_width(indented(layer)));
    kinds = std::max(kinds, report::text_width(layer.description));
    shapes = std::max(shapes, report::text_width(to_string(layer.output)));
  }
  const std::string header = fmt::format("{}  {}  {}", report::padded("name", names),
                                         report::padded("layer", kinds), report::padded("output", shapes));
  output::print("{}  {:>12}  {:>10}\n", header, "parameters", "FLOP");
  for (const auto& layer : summary.layers)
    output::print("{}  {}  {}  {:>12}  {:>10}\n", report::padded(indented(layer), names),
                  report::padded(layer.description, kinds),
                  report::padded(layer.calls > 0 ? to_string(layer.output) : "not used", shapes),
                  layer.parameters, layer.flop > 0 ? count_text(static_cast<double>(layer.flop)) : "");
}

}  // namespace

int summary(const ConfigArguments& arguments) {
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  train::prepare_machine(loaded);
  const tasks::DataPtr data = runs::describe_data(loaded.config);
  const Index batch = loaded.config.data.batch_size, timed = std::min<Index>(batch, kTimedBatch);
  const auto summary_on = [&](Device device) {
    const nn::BuildDevice building(device);
    return summarised(*config::make_task(loaded, data), timed);
  };
  const models::ModelSummary summary = summary_on(kShapes);
  const train::Footprint footprint = train::footprint_of(loaded, data);
  print_layers(summary);

  const auto bytes = [](std::int64_t count) { return bytes_text(static_cast<double>(count)); };
  output::print("\nparameters       {} ({} trained)\n", summary.parameters, footprint.trainable);
  output::print("FLOP a sample    {} forward, about {} for a training step\n",
                count_text(static_cast<double>(summary.flop)),
                count_text(3.0 * static_cast<double>(summary.flop)));
  output::print("memory           {}\n", train::to_string(footprint));
  output::print("                 saved for backward {} a sample, {} a batch of {}\n",
                bytes(summary.saved_bytes), bytes(batch * summary.saved_bytes), batch);
  // Times need the weights, and a forward pass.
  const std::int64_t needed = summary.parameter_bytes + timed * summary.saved_bytes;
  const bool fits = static_cast<std::size_t>(needed) <= host_memory_limit();
  print_advice(summary, batch, fits ? std::optional(models::product_share(summary_on({}))) : std::nullopt);
  return 0;
}

}  // namespace tandem::cli
