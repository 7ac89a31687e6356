// What the files of the trainer share: trainer.cpp (the course of a run), trainer_outcomes.cpp (what becomes
// of its steps) and trainer_saves.cpp (checkpoints, and going on from them).
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "train/checkpoints.h"
#include "train/config/load.h"
#include "train/files.h"
#include "train/log.h"
#include "train/progress.h"
#include "train/run_writer.h"
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

inline void begin_next_epoch(RunState& state) {
  ++state.epoch;
  state.position = 0;
  state.epoch_loss = state.epoch_samples = 0.0;
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
  Session(const RunDirectory& directory_, const StopRequest& stop_, const config::Config& config,
          const DataDescription& data)
      : directory(directory_),
        stop(stop_),
        survives_write_errors(config.checkpoint.on_save_error == "continue"),
        metrics(directory_, config, survives_write_errors ? OnWriteError::keep : OnWriteError::fail),
        log(directory_.log()),
        checkpoints(directory_, config.checkpoint.keep, data, course_of(config)) {}

  void say(const std::string& text) {
    if (progress) progress->line(text);
    log.info(text);
  }
  // To the user even when quiet.
  void warn(const std::string& text) {
    if (progress) {
      progress->line("warning: " + text);
    } else {
      fmt::print(stderr, "tandem: warning: {}\n", text);
    }
    log.warning(text);
  }

  // A whole file beside the checkpoints; what they say of errors goes for it too.
  void write_beside(const std::filesystem::path& path, const std::string& text) {
    try {
      write_atomically(path, text);
    } catch (const std::exception& error) {
      if (!survives_write_errors) throw;
      warn(fmt::format("{}; training goes on (checkpoint.on_save_error)", error.what()));
    }
  }

  const RunDirectory& directory;
  const StopRequest& stop;
  const bool survives_write_errors;
  RunWriter metrics;
  Log log;
  Checkpoints checkpoints;
  std::unique_ptr<Progress> progress;  // absent when quiet
  RunState state;
  TrainResult result;
  std::deque<Pending> pending;
  Clock::time_point started = Clock::now();
  double step_seconds = 0.0;  // smoothed
  double epoch_seconds = 0.0;
  double own_samples = 0.0;  // of the epoch, that this process has served
  // Attempted steps at the last save and at the last step that was read, or when the session began.
  std::int64_t saved_step = 0, read_step = 0;
  std::string save_error;  // of the last save; empty when it went well
  // Before the best figure whose checkpoint is under way: what is best if that cannot be saved.
  std::optional<RunState> before_best;
};

}  // namespace tandem::train
