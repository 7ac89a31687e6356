#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "cli/commands.h"
#include "cli/rank_deadline.h"
#include "config/load.h"
#include "config/task.h"
#include "core/error.h"
#include "core/units.h"
#include "files/json_text.h"
#include "files/output.h"
#include "parallel/agreement.h"
#include "parallel/launch.h"
#include "studies/plan/planner.h"
#include "train/evaluate.h"
#include "train/planned.h"
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
  const auto value = train::figure(result.metrics, key);
  const auto shown = [&](const std::string& of, std::optional<double> number) {
    if (!number) return std::string("–");
    return tasks::kind_of(config::metrics(config), of).share ? decimal_text(100.0 * *number, 2) + " %"
                                                             : decimal_text(*number, 4);
  };
  const std::string first = result.metrics.empty() ? key : result.metrics.front().first;
  std::string figures = fmt::format("{}: {}", first, shown(first, train::figure(result.metrics, first)));
  if (key != first) figures += fmt::format(", {} {}", key, shown(key, value));
  const bool by_validation = result.best && result.chosen_on == "validation" && result.split == "test";
  output::print("{} {} {}, {} of training\n", name, figures,
                by_validation ? fmt::format("with the weights of epoch {} (validation {} {})",
                                            result.best_epoch, key, shown(key, *result.best))
                              : fmt::format("after epoch {}", result.epoch),
                duration_text(result.train_s));
  if (result.best && result.chosen_on == "test" && std::isfinite(*result.best) && value != result.best)
    output::print(
        "Best {} of all epochs: {} after epoch {}. It was chosen on the test split, so it is optimistic; "
        "data.validation_size sets samples aside to choose by.\n",
        key, shown(key, *result.best), result.best_epoch);
  output::print("Run directory: {}\n", printable(run));
}

}  // namespace

namespace {

// A short form of an override: it is part of the configuration, and so of a run that is gone on with.
std::vector<std::string> overrides_of(const TrainArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (arguments.overfit_batches) {
    require(!arguments.config.empty() || arguments.resume.empty(), "",
            "train: --resume {} goes on with the run's own configuration; leave out --overfit-batches",
            arguments.resume);
    overrides.push_back(fmt::format("data.overfit_batches={}", *arguments.overfit_batches));
  }
  return overrides;
}

// What a run of several processes alone can mean.
void require_ranks(const config::Loaded& loaded) {
  if (parallel::launch_from_environment()) return;
  const config::ParallelConfig& given = loaded.config.parallel;
  const auto refuse = [&](const std::string& key, bool asked_for) {
    require(!asked_for, "",
            "{}: {}: is for several processes: start them with mpirun -n N tandem train …, or leave the key "
            "out",
            config::place_of(loaded.given, key), key);
  };
  refuse("parallel.per_rank", given.per_rank);
  refuse("parallel.wire", given.wire != config::ParallelConfig().wire);
}

// `tandem train` as one rank does it; every rank goes the same way, and the first one speaks.
class Training {
  // Before its first use, which deduces what it returns.
  template <class Work>
  auto together(Work&& work) {
    return parallel::together(ranks_, deadline_s_, std::forward<Work>(work));
  }

 public:
  // `deadline_s`: until the configuration says so.
  Training(const TrainArguments& arguments, parallel::Communicator& ranks, double deadline_s)
      : arguments_(arguments), ranks_(ranks), first_(ranks.rank() == 0), deadline_s_(deadline_s) {}

  int run() {
    find_run();
    const std::vector<std::string> overrides = overrides_of(arguments_);
    auto loaded = together([&] {
      auto made = config::load(path_.empty() ? arguments_.config : path_ + "/config.json", overrides);
      if (path_.empty()) require_ranks(made);
      return made;
    });
    deadline_s_ = loaded.config.parallel.deadline_s;
    train::prepare_machine(loaded);
    if (!loaded.config.threads) train::share_cpus(ranks_, deadline_s_);
    take_plan(loaded);
    const bool resumes = !path_.empty();
    // The first rank's choice: what is there may change before others look.
    const std::string weights =
        text_of_first(together([&] { return resumed_ ? runs::weights_with_data(*resumed_) : ""; }));
    const auto trainer = together([&] {
      return std::make_unique<train::Trainer>(loaded,
                                              train::TrainerOptions{.limit_steps = arguments_.limit_steps,
                                                                    .quiet = arguments_.quiet,
                                                                    .resume = resumes,
                                                                    .weights = weights,
                                                                    .ranks = &ranks_});
    });
    if (arguments_.dry_run) {
      const std::string text = together([&] { return trainer->dry_run(); });
      if (first_) output::print("{}", text);
      return 0;
    }
    trainer->compare_ranks();
    const auto directory = together([&] { return open_directory(loaded.config); });
    path_ = text_of_first(directory ? directory->path().string() : "");
    const train::StopRequest stop(!first_ ? "" : note_on_signals());
    train::TrainResult result;
    try {
      result = trainer->run(directory ? &*directory : nullptr, command_line(arguments_), stop);
    } catch (const VendorError& error) {
      if (ranks_.size() > 1) throw;
      output::print_error(error.what());
      output::remark("{}\n", way_on().substr(1));
      return kExitFailure;
    }
    return conclude(result, loaded.config);
  }

  // What goes on with the run, as it is typed.
  std::string command() const {
    return fmt::format("{}tandem train {}",
                       ranks_.size() > 1 ? fmt::format("mpirun -n {} ", ranks_.size()) : "",
                       printable(path_));
  }

  // The same in a sentence behind another one, as far as this rank sees the run; "" where there is none yet.
  std::string way_on() const noexcept {
    try {
      if (path_.empty()) return "";
      if (!runs::RunDirectory::is_run(path_)) return " Go on with: " + command();
      const bool saved = runs::has_checkpoint(runs::RunDirectory::open(path_));
      return fmt::format(
          " The run {} with: {}",
          saved ? "goes on from its newest checkpoint" : "has saved nothing yet, and begins anew", command());
    } catch (const std::exception&) {
      return "";
    }
  }

 private:
  std::string text_of_first(const std::string& text) {
    const auto bytes =
        ranks_.broadcast_bytes(std::as_bytes(std::span(text.data(), text.size())), 0, deadline_s_);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Which run is gone on with is for one rank to say: others may be starting one meanwhile.
  void find_run() {
    std::vector<std::string> ignored_runs;
    resumed_ = together([&]() -> std::optional<runs::RunDirectory> {
      if (!first_) return std::nullopt;
      return train::run_to_resume(arguments_.config, overrides_of(arguments_), arguments_.resume,
                                  ignored_runs);
    });
    for (const std::string& note : ignored_runs) output::print_error("warning: " + note);
    path_ = text_of_first(resumed_ ? resumed_->path().string() : "");
  }

  // What precision.plan means: the plan of the run that is gone on with, unless the command line names
  // another one; a file; or a plan that is made now. The first rank's.
  void take_plan(config::Loaded& loaded) {
    const auto& plan = loaded.config.precision.plan;
    if (!plan) return;
    const bool named = std::ranges::any_of(arguments_.overrides, [](const std::string& given) {
      return given.starts_with("precision.plan=") || given.starts_with("precision=");
    });
    const bool made = *plan == train::kPlanAtStart;
    together([&] {
      if (!first_) return;
      if (resumed_ && !named) train::take_plan_of_run(loaded, *resumed_);
      if (!loaded.plan.empty()) return;
      require(
          !made || ranks_.size() == 1, "",
          "precision.plan: auto measures this machine, which {} ranks would wait for; make the plan before, "
          "with one process: tandem plan CONFIG",
          ranks_.size());
      loaded.plan = made ? planning::plan_at_start(loaded) : train::plan_text_of(loaded);
    });
    loaded.plan = text_of_first(loaded.plan);
  }

  std::optional<runs::RunDirectory> open_directory(const config::Config& config) const {
    if (!first_ || resumed_) return resumed_;
    return runs::RunDirectory::create(config.run_dir, config.name,
                                      files::json_text(config::resolved(config), 2) + "\n");
  }

  // mpirun sends signals, too, when a rank has ended, and leaves little time: then this is the last line.
  std::string note_on_signals() const {
    if (ranks_.size() == 1) return "Stopping after this step; once more stops now.";
    return "Stopping after this step. The run goes on with: " + command();
  }

  int conclude(const train::TrainResult& result, const config::Config& config) const {
    switch (result.status) {
      case train::TrainStatus::failed:
      case train::TrainStatus::diverged:
        if (first_) {
          output::print_error(result.failure);
          output::remark("Run directory: {}\n", printable(path_));
        }
        return result.status == train::TrainStatus::diverged ? kExitDiverged : kExitFailure;
      case train::TrainStatus::interrupted:
        if (first_)
          output::print("Interrupted after step {}. Go on with: {}tandem train {}\n", result.steps,
                        ranks_.size() > 1 ? fmt::format("mpirun -n {} ", ranks_.size()) : "",
                        printable(path_));
        return kExitInterrupted;
      case train::TrainStatus::completed:
        break;
    }
    if (first_) print_result(result, config, path_);
    return 0;
  }

  const TrainArguments& arguments_;
  parallel::Communicator& ranks_;
  const bool first_;
  double deadline_s_;
  std::optional<runs::RunDirectory> resumed_;  // of the first rank
  std::string path_;                           // of the run, on every rank; empty: there is none yet
};

}  // namespace

int train(const TrainArguments& arguments) {
  const std::string& run = !arguments.config.empty() ? arguments.config : arguments.resume;
  const double deadline_s = deadline_at_start(run, arguments.overrides);
  const std::unique_ptr<parallel::Communicator> ranks =
      parallel::open_communicator({.deadline_s = deadline_s});
  Training training(arguments, *ranks, deadline_s);
  if (ranks->size() == 1) return training.run();
  try {
    return training.run();
  } catch (const parallel::AgreedError& error) {
    if (ranks->rank() == 0) {
      output::print_error(error.what());
      const std::string way_on = error.users_mistake() ? "" : training.way_on();
      if (!way_on.empty()) output::remark("{}\n", way_on.substr(1));
    }
    return error.users_mistake() ? kExitUsage : kExitFailure;
  } catch (const std::exception& error) {
    ranks->abort(fmt::format("{}.{}", error.what(), training.way_on()), kExitFailure);
  }
  return kExitFailure;  // not reached
}

}  // namespace tandem::cli
