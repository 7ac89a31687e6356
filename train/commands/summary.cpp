#include "models/summary.h"

#include <fmt/core.h>

#include "models/advice.h"
#include "train/commands/advice.h"
#include "train/commands/commands.h"
#include "train/progress.h"
#include "train/setup.h"
#include "train/table.h"

namespace tandem::commands {

namespace {

void print_layers(const models::ModelSummary& summary) {
  std::size_t names = 5, kinds = 5, shapes = 6;
  const auto indented = [](const models::LayerSummary& layer) {
    const std::string own = layer.name.substr(layer.name.rfind('.') + 1);
    return std::string(static_cast<std::size_t>(2 * layer.depth), ' ') +
           (layer.name.empty() ? "(model)" : own);
  };
  for (const auto& layer : summary.layers) {
    names = std::max(names, train::text_width(indented(layer)));
    kinds = std::max(kinds, train::text_width(layer.description));
    shapes = std::max(shapes, train::text_width(to_string(layer.output)));
  }
  const std::string header = fmt::format("{}  {}  {}", train::padded("name", names),
                                         train::padded("layer", kinds), train::padded("output", shapes));
  fmt::print("{}  {:>12}  {:>10}\n", header, "parameters", "FLOP");
  for (const auto& layer : summary.layers)
    fmt::print("{}  {}  {}  {:>12}  {:>10}\n", train::padded(indented(layer), names),
               train::padded(layer.description, kinds),
               train::padded(layer.calls > 0 ? to_string(layer.output) : "not used", shapes),
               layer.parameters, layer.flop > 0 ? train::count_text(static_cast<double>(layer.flop)) : "");
}

}  // namespace

int summary(const ConfigArguments& arguments) {
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  train::prepare_machine(loaded);
  const train::DataDescription data = train::describe_data(loaded.config);
  const auto pipeline =
      datasets::training_pipeline(train::without_samples(data), train::augmentations(loaded.config));
  const auto model = train::make_model(loaded, data, pipeline.output_shape());
  const models::ModelSummary summary =
      models::summarise(*model, pipeline.output_shape(), pipeline.output_dtype(),
                        std::min<Index>(loaded.config.data.batch_size, 16));
  print_layers(summary);

  const auto optimizer = train::make_optimizer(loaded.config, *model);
  std::int64_t moments = 0;
  for (const auto& moment : optimizer->moments()) moments += moment.name.empty() ? 0 : 1;
  const auto batch = static_cast<double>(loaded.config.data.batch_size);
  const auto bytes = [](double count) { return train::bytes_text(count); };
  fmt::print("\nparameters       {} ({} trained)\n", summary.parameters, summary.trainable);
  fmt::print("FLOP a sample    {} forward, about {} for a training step\n",
             train::count_text(static_cast<double>(summary.flop)),
             train::count_text(3.0 * static_cast<double>(summary.flop)));
  fmt::print("memory           weights {}, statistics {}, gradients {}, optimizer {}\n",
             bytes(static_cast<double>(summary.parameter_bytes)),
             bytes(static_cast<double>(summary.statistic_bytes)),
             bytes(static_cast<double>(summary.gradient_bytes)),
             bytes(static_cast<double>(moments * summary.gradient_bytes)));
  fmt::print("                 saved for backward {} a sample, {} a batch of {}\n",
             bytes(static_cast<double>(summary.saved_bytes)),
             bytes(batch * static_cast<double>(summary.saved_bytes)), loaded.config.data.batch_size);
  print_advice(summary, loaded.config.data.batch_size, models::product_share(summary));
  return 0;
}

}  // namespace tandem::commands
