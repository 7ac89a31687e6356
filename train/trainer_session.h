// A session of a run: state that exists only during Trainer::run. trainer.cpp has the loop; trainer_start.cpp
// and trainer_end.cpp the code before the first and after the last step; trainer_evaluations.cpp evaluations;
// trainer_saves.cpp checkpoints and resumption.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "train/run_output.h"
#include "train/run_saves.h"
#include "train/run_schedules.h"
#include "train/step_log.h"
#include "train/trainer.h"

namespace tandem::train {

using Clock = std::chrono::steady_clock;

inline double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Content of the newest intact checkpoint; empty if the run has saved nothing yet.
struct Trainer::Resumed {
  std::string checkpoint{};  // its name; empty if there is none
  runs::RunState run{};
  std::vector<optim::NamedTensor> tensors{};
  bool converting = false;                                  // from another precision
  std::vector<std::vector<tasks::CarriedState>> carries{};  // by phase and own shard; all may be empty

  bool found() const { return !checkpoint.empty(); }
  tasks::Record to_record() const;
  static Resumed from_record(std::span<const std::byte> record);
};

struct Trainer::Session {
  Session(Trainer& trainer, const runs::RunDirectory* directory, const StopRequest& stop, Resumed resumed);

  const StopRequest& stop;
  const Clock::time_point started = Clock::now();
  RunOutput output;
  RunSaves saves;
  const FigureRules figures;
  runs::RunState state;
  TrainResult result;
  StepLog steps;
  StepPipeline pipeline;
  std::int64_t checked_step = 0;  // iterations when ranks were last compared
  bool stops = false;             // stop requested, or fatal write error, on some rank; equal on all ranks
  double epoch_seconds = 0.0;
  std::optional<std::string> artifact_error;  // error of missing files of the last evaluation
  std::optional<std::string> diverged;        // reason why completed training has diverged
  std::exception_ptr evaluation_error;        // rethrown after the epoch is saved
};

}  // namespace tandem::train
