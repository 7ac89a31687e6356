// What the files of the trainer share: trainer.cpp (the course of a run), trainer_outcomes.cpp (what becomes
// of its steps), trainer_evaluations.cpp (what is measured, chosen and left), trainer_saves.cpp (checkpoints,
// and going on from them), trainer_course.cpp (what evaluations make of the course) and trainer_ranks.cpp
// (what ranks tell each other).
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "config/load.h"
#include "core/error.h"
#include "files/output.h"
#include "files/write.h"
#include "runs/checkpoints.h"
#include "runs/log.h"
#include "runs/run_writer.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace tandem::train {

using Clock = std::chrono::steady_clock;

inline double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A loss that is no number; carries the sentence for the user.
struct Diverged {
  std::string what;
};

inline void begin_next_epoch(runs::RunState& state) {
  ++state.epoch;
  state.position = 0;
  std::ranges::fill(state.epoch_losses, 0.0);
  state.epoch_samples = 0.0;
}

// Whether a count that went from `before` to `now` came to a multiple of `every` or passed one: a step that
// is retried is attempted several times.
inline bool passes_multiple(std::int64_t before, std::int64_t now, std::int64_t every) {
  return now / every > before / every;
}

// The configuration without where the run lies: a run may be moved.
inline config::Json course_of(const config::Config& config) {
  config::Json course = config::resolved(config);
  course.erase("run_dir");
  return course;
}

// What exists only while a run goes on.
struct Trainer::Session {
  Session(const runs::RunDirectory* directory_, const StopRequest& stop_, const config::Config& config,
          const tasks::Data& data, std::size_t phases, std::string speaker_)
      : directory(directory_),
        speaker(std::move(speaker_)),
        stop(stop_),
        survives_write_errors(config.checkpoint.on_save_error == "continue"),
        metrics(directory_, config),
        log(directory_ ? runs::Log(directory_->log()) : runs::Log()),
        ledger(!config.precision.is_fp32()),
        read_step(phases),
        read_loss(phases),
        step_started(phases, Clock::now()) {
    state.epoch_losses.assign(phases, 0.0);
    if (directory)
      checkpoints.emplace(*directory, config.checkpoint.keep, data.description(), course_of(config));
  }

  void say(const std::string& text) {
    if (progress) progress->line(text);
    log.info(text);
  }
  // To the user even when quiet. What another rank than the first has to say is told after its number.
  void warn(const std::string& text) {
    if (progress) {
      progress->line("warning: " + text);
    } else {
      output::print_error(speaker + "warning: " + text);
    }
    log.warning(text);
  }

  // A whole file beside the checkpoints, by its path within the run directory. Returns whether it is there.
  bool write_beside(const std::filesystem::path& file, const std::string& text) {
    if (!directory) return true;
    try {
      files::write_atomically(directory->path() / file, text);
      return true;
    } catch (const VendorError& error) {
      trouble = error.what();
      return false;
    }
  }

  // Why the run has to end, saved: its course could not be written. Where checkpoint.on_save_error says that
  // it goes on, a warning instead. The log alone ends no run.
  const std::optional<std::string>& hindrance() {
    const auto now = metrics.trouble() ? metrics.trouble() : trouble;
    if (survives_write_errors) {
      warn_once(now, told, "training goes on (checkpoint.on_save_error)");
    } else if (now && !hindered) {
      hindered = now;
    }
    warn_once(log.trouble(), told_of_log, "training goes on");
    return hindered;
  }

  void warn_once(const std::optional<std::string>& now, std::optional<std::string>& before,
                 const char* consequence) {
    if (now != std::exchange(before, now) && now) warn(fmt::format("{}; {}", *now, consequence));
  }

  const runs::RunDirectory* directory;  // absent on ranks that write nothing
  const std::string speaker;            // "", or of a rank that is not the first "rank 1 of 4: "
  const StopRequest& stop;
  bool stops = false;  // asked for, or hindered, on some rank; the same on all
  const bool survives_write_errors;
  runs::RunWriter metrics;
  runs::Log log;
  std::optional<runs::Checkpoints> checkpoints;  // absent on ranks that write nothing
  std::unique_ptr<Progress> progress;            // absent when quiet
  runs::RunState state;
  TrainResult result;
  StepLedger ledger;
  // The batches of the iteration under way: how many, and themselves where further phases go over them.
  std::int64_t batches_taken = 0;
  std::vector<MicroBatch> batches;
  Clock::time_point started = Clock::now();
  double step_seconds = 0.0;  // smoothed
  double epoch_seconds = 0.0;
  double own_samples = 0.0;  // of the epoch, that this process has served
  // Iterations at the last save, at the last comparison of ranks, and by phase at the last step that was
  // read, or when the session began.
  std::int64_t saved_step = 0, checked_step = 0;
  std::vector<std::int64_t> read_step;
  std::vector<double> read_loss;                // of that step
  std::vector<Clock::time_point> step_started;  // by phase: when its last step ended
  // Iterations, or −1: those after which the newest checkpoint holds what the steps hold, on all ranks until
  // the first one finds that it was not saved; those of the checkpoint that metrics told of last.
  std::int64_t tensors_at = -1, told_of_save = -1;
  std::string save_error;                        // of the last save; empty when it went well
  std::optional<std::string> trouble;            // of files beside the checkpoints
  std::optional<std::string> unwritten;          // why files of the last evaluation are missing
  std::optional<std::string> ran_away;           // how training diverged that came to its end
  std::exception_ptr evaluation_error;           // of an epoch that is saved before it is passed on
  std::optional<std::string> hindered;           // what `hindrance` has found; it stays
  std::optional<std::string> told, told_of_log;  // what the last warnings were about
  bool told_of_wire = false;
  // Before the best figure whose checkpoint is under way: what is best if that cannot be saved.
  std::optional<runs::RunState> before_best;
};

}  // namespace tandem::train
