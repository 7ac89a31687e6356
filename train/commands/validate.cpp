#include "train/commands/commands.h"
#include "train/config/load.h"
#include "train/output.h"
#include "train/setup.h"

namespace tandem::commands {

int validate(const ConfigArguments& arguments) {
  const auto problems = config::problems_of(arguments.config, arguments.overrides);
  for (const std::string& line : config::listed(problems)) train::remark("{}\n", printable(line));
  if (!problems.empty()) return kExitUsage;
  // The model says whether its own options and the rules for its layers fit; it takes its sizes from the
  // data.
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  train::DataDescription data;
  try {
    data = train::describe_data(loaded.config);
  } catch (const std::exception& error) {
    train::print("{}: valid as far as it goes without its data: {}\n", arguments.config, error.what());
    return 0;
  }
  const auto pipeline =
      datasets::training_pipeline(train::without_samples(data), train::augmentations(loaded.config));
  train::make_plan(loaded, *train::make_model(loaded, data, pipeline.output_shape()));
  train::print("{}: valid\n", arguments.config);
  return 0;
}

}  // namespace tandem::commands
