#include "cli/commands.h"
#include "config/load.h"
#include "config/task.h"
#include "core/device_library.h"
#include "files/json_text.h"
#include "files/not_there.h"
#include "files/output.h"
#include "runs/run_data.h"
#include "train/footprint.h"
#include "train/start_checks.h"

namespace tandem::cli {

namespace {

bool computes_on_cpu(const config::Config& config) {
  return config.device == "cpu" || (config.device == "auto" && cuda_devices().count == 0);
}

void print_found(const config::Json& json) { output::print("{}\n", files::json_text(json)); }

}  // namespace

int validate(const ShowArguments& arguments) {
  const auto problems = config::listed(config::problems_of(arguments.config, arguments.overrides));
  config::Json found{{"config", arguments.config}, {"valid", problems.empty()}};
  if (!problems.empty()) {
    found["problems"] = problems;
    if (arguments.json) print_found(found);
    for (const std::string& line : problems)
      if (!arguments.json) output::remark("{}\n", printable(line));
    return kExitUsage;
  }
  // The model checks its options and the precision rules for its layers; its sizes come from the data.
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  tasks::DataPtr data;
  try {
    data = runs::describe_data(loaded.config);
  } catch (const files::NotThere& error) {
    found["data"] = error.what();
    if (arguments.json) {
      print_found(found);
    } else {
      output::print("{}: valid, but not checked against its data: {}\n", arguments.config, error.what());
    }
    return 0;
  }
  const train::Footprint footprint = train::footprint_of(loaded, data);
  if (computes_on_cpu(loaded.config)) train::require_memory(loaded, footprint);
  const config::ParallelConfig& parallel = loaded.config.parallel;
  train::check_start(loaded, data, parallel.sync_batch_norm ? 1 : parallel.shards.value_or(1));
  if (arguments.json) {
    found["parameters"] = footprint.parameters;
    found["trained"] = footprint.trainable;
    found["memory"] = train::to_json(footprint);
    found["notes"] = footprint.notes;
    print_found(found);
    return 0;
  }
  output::print("{}: valid\n{} parameters, {} trained\n{}\n", arguments.config, footprint.parameters,
                footprint.trainable, train::to_string(footprint));
  if (const std::string recompute = train::recompute_text(footprint); !recompute.empty())
    output::print("{}\n", recompute);
  for (const std::string& note : footprint.notes) output::print("{}\n", note);
  return 0;
}

}  // namespace tandem::cli
