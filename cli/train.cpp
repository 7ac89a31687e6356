#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/commands.h"
#include "config/load.h"
#include "config/task.h"
#include "core/error.h"
#include "core/units.h"
#include "files/json_text.h"
#include "files/output.h"
#include "train/resume.h"
#include "train/trainer.h"

namespace tandem::cli {

namespace {

std::string command_line(const TrainArguments& arguments) {
  std::string line = "tandem train";
  if (!arguments.config.empty()) line += " " + arguments.config;
  for (const std::string& argument : arguments.overrides) line += " " + argument;
  if (!arguments.resume.empty()) line += " --resume " + arguments.resume;
  if (arguments.limit_steps) line += fmt::format(" --limit-steps {}", *arguments.limit_steps);
  if (arguments.overfit_batches) line += fmt::format(" --overfit-batches {}", *arguments.overfit_batches);
  return line;
}

void print_result(const train::TrainResult& result, const config::Config& config, const std::string& run) {
  std::string name = result.split;
  if (!name.empty()) name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  const std::string key = config.best();
  const double value = runs::metric(result.metrics, key);
  const auto shown = [&](const std::string& of, double number) {
    return tasks::kind_of(config::metrics(config), of).share ? fmt::format("{:.2f} %", 100.0 * number)
                                                             : fmt::format("{:.4f}", number);
  };
  const auto& [first, first_value] = result.metrics.front();
  std::string figures = fmt::format("{}: {}", first, shown(first, first_value));
  if (key != first) figures += fmt::format(", {} {}", key, shown(key, value));
  const bool by_validation = result.best && result.chosen_on == "validation" && result.split == "test";
  output::print("{} {} {}, {} of training\n", name, figures,
                by_validation ? fmt::format("with the weights of epoch {} (validation {} {})",
                                            result.best_epoch, key, shown(key, *result.best))
                              : fmt::format("after epoch {}", result.epoch),
                duration_text(result.train_s));
  if (result.best && result.chosen_on == "test" && value != *result.best)
    output::print(
        "Best {} of all epochs: {} after epoch {}. It was chosen on the test split, so it is optimistic; "
        "data.validation_size sets samples aside to choose by.\n",
        key, shown(key, *result.best), result.best_epoch);
  output::print("Run directory: {}\n", printable(run));
}

}  // namespace

int train(const TrainArguments& arguments) {
  // A short form of an override: it is part of the configuration, and so of a run that is gone on with.
  std::vector<std::string> overrides = arguments.overrides;
  if (arguments.overfit_batches) {
    require(!arguments.config.empty() || arguments.resume.empty(), "",
            "train: --resume {} goes on with the run's own configuration; leave out --overfit-batches",
            arguments.resume);
    overrides.push_back(fmt::format("data.overfit_batches={}", *arguments.overfit_batches));
  }
  std::vector<std::string> passed_over;
  const auto resumed = train::run_to_resume(arguments.config, overrides, arguments.resume, passed_over);
  for (const std::string& note : passed_over) output::print_error("warning: " + note);
  config::Loaded loaded =
      resumed ? config::load(resumed->config(), overrides) : config::load(arguments.config, overrides);
  train::prepare_machine(loaded);
  train::Trainer trainer(
      loaded,
      {.limit_steps = arguments.limit_steps, .quiet = arguments.quiet, .resume = resumed.has_value()});
  if (arguments.dry_run) {
    output::print("{}", trainer.dry_run());
    return 0;
  }
  const train::StopRequest stop;
  const auto directory =
      resumed ? *resumed
              : runs::RunDirectory::create(loaded.config.run_dir, loaded.config.name,
                                           files::json_text(config::resolved(loaded.config), 2) + "\n");
  const std::string run = directory.path().string();
  train::TrainResult result;
  try {
    result = trainer.run(directory, command_line(arguments), stop);
  } catch (const VendorError& error) {
    output::print_error(error.what());
    const bool saved = runs::has_checkpoint(directory);
    output::remark("The run {} with: tandem train {}\n",
                   saved ? "goes on from its newest checkpoint" : "has saved nothing yet, and begins anew",
                   printable(run));
    return kExitFailure;
  }
  switch (result.status) {
    case train::TrainStatus::failed:
      output::print_error(result.failure);
      output::remark("Run directory: {}\n", printable(run));
      return kExitFailure;
    case train::TrainStatus::interrupted:
      output::print("Interrupted after step {}. Go on with: tandem train {}\n", result.steps, printable(run));
      return kExitInterrupted;
    case train::TrainStatus::completed:
      break;
  }
  print_result(result, loaded.config, run);
  return 0;
}

}  // namespace tandem::cli
