// A session of a run: what exists only while Trainer::run goes on. trainer.cpp has the loop,
// trainer_start.cpp and trainer_end.cpp what comes before the first step and after the last,
// trainer_evaluations.cpp what is measured, chosen and left, trainer_saves.cpp checkpoints and going on from
// them.
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

// What the newest whole checkpoint holds; a run that has saved nothing yet begins anew.
struct Trainer::Resumed {
  std::string checkpoint{};  // its name; empty: none was there
  runs::RunState run{};
  std::vector<optim::NamedTensor> tensors{};
  bool converting = false;                                  // from another precision
  std::vector<std::vector<tasks::CarriedState>> carries{};  // what own shards go on with, by phase; all empty

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
  std::int64_t checked_step = 0;  // iterations when ranks were compared last
  bool stops = false;             // asked for, or hindered, on some rank; the same on all
  double epoch_seconds = 0.0;
  std::optional<std::string> unwritten;  // why files of the last evaluation are missing
  std::optional<std::string> ran_away;   // how training diverged that came to its end
  std::exception_ptr evaluation_error;   // of an epoch that is saved before it is passed on
};

}  // namespace tandem::train
