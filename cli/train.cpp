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
        "Best {} of all epochs: {} after epoch {}. It was chosen on the test split, so it is optimistic; set "
        "data.validation_size to choose on held-out samples.\n",
        key, shown(key, *result.best), result.best_epoch);
  output::print("Run directory: {}\n", printable(run));
}

}  // namespace

namespace {

// --overfit-batches sets a key: it belongs to the configuration, also of a resumed run.
std::vector<std::string> overrides_of(const TrainArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (arguments.overfit_batches) {
    require(!arguments.config.empty() || arguments.resume.empty(), "",
            "train: --resume {} uses the run's own configuration; leave out --overfit-batches",
            arguments.resume);
    overrides.push_back(fmt::format("data.overfit_batches={}", *arguments.overfit_batches));
  }
  return overrides;
}

// Refuses keys that need several processes.
void require_ranks(const config::Loaded& loaded) {
  if (parallel::launch_from_environment()) return;
  const config::ParallelConfig& given = loaded.config.parallel;
  const auto refuse = [&](const std::string& key, bool asked_for) {
    require(
        !asked_for, "",
        "{}: {}: needs several processes: start them with mpirun -n N tandem train …, or leave the key out",
        config::place_of(loaded.given, key), key);
  };
  refuse("parallel.per_rank", given.per_rank);
  refuse("parallel.wire", given.wire != config::ParallelConfig().wire);
}

// `tandem train` on one rank. All ranks run the same steps; the first one prints.
class Training {
  // Declared before its first use, which deduces its return type.
  template <class Work>
  auto together(Work&& work) {
    return parallel::together(ranks_, deadline_s_, std::forward<Work>(work));
  }

 public:
  // `deadline_s`: used until the configuration is read.
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
    // The first rank chooses: checkpoints may change before other ranks look.
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
      output::remark("{}\n", resume_hint().substr(1));
      return kExitFailure;
    }
    return conclude(result, loaded.config);
  }

  // The command line that resumes the run.
  std::string command() const {
    return fmt::format("{}tandem train {}",
                       ranks_.size() > 1 ? fmt::format("mpirun -n {} ", ranks_.size()) : "",
                       printable(path_));
  }

  // A sentence with that command, after another sentence; "" if there is no run yet.
  std::string resume_hint() const noexcept {
    try {
      if (path_.empty()) return "";
      if (!runs::RunDirectory::is_run(path_)) return " Resume with: " + command();
      const bool saved = runs::has_checkpoint(runs::RunDirectory::open(path_));
      return fmt::format(
          " The run {} with: {}",
          saved ? "resumes from its newest checkpoint" : "has saved nothing yet, and starts again",
          command());
    } catch (const std::exception&) {
      return "";
    }
  }

 private:
  std::string text_of_first(const std::string& text) { return ranks_.broadcast_text(text, 0, deadline_s_); }

  // The first rank chooses the run to resume: other runs may start meanwhile.
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

  // Resolves precision.plan on the first rank: the plan of the resumed run, unless the command line names
  // another one; a file; or a new plan.
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
      require(!made || ranks_.size() == 1, "",
              "precision.plan: auto measures this machine, and {} ranks would have to wait; make the plan "
              "before, in one process: tandem plan CONFIG",
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

  // mpirun also sends signals when a rank has ended, and leaves little time: this may be the last line.
  std::string note_on_signals() const {
    if (ranks_.size() == 1) return "Stopping after this step; once more stops now.";
    return "Stopping after this step. Resume with: " + command();
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
          output::print("Interrupted after step {}. Resume with: {}tandem train {}\n", result.steps,
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
  std::string path_;                           // of the run, on every rank; empty if there is none yet
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
      const std::string resume_hint = error.users_mistake() ? "" : training.resume_hint();
      if (!resume_hint.empty()) output::remark("{}\n", resume_hint.substr(1));
    }
    return error.users_mistake() ? kExitUsage : kExitFailure;
  } catch (const std::exception& error) {
    ranks->abort(fmt::format("{}.{}", error.what(), training.resume_hint()), kExitFailure);
  }
  return kExitFailure;  // not reached
}

}  // namespace tandem::cli
