// RunSaves: checkpoints that a session of a run saves, one save at a time, and their status. On ranks that
// write nothing it only counts steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runs/checkpoints.h"
#include "tasks/task.h"
#include "train/run_output.h"
#include "train/run_schedules.h"

namespace tandem::train {

// The configuration without run_dir, since a run's directory may be moved.
config::Json config_without_run_dir(const config::Config& config);

class RunSaves {
 public:
  // `step`: iteration of the checkpoint that the run resumes from, or 0. Unless `converted`, the steps hold
  // the tensors of that checkpoint. `output` is kept by reference.
  RunSaves(RunOutput& output, const config::Config& config, const tasks::Data& data, std::int64_t step,
           bool converted);

  // Waits for the save under way, if any. A failed save throws, or is a warning if the run survives write
  // errors; `state` then loses the best metric of that save.
  void conclude(runs::RunState& state);
  // Whether conclude() would return a result without waiting.
  bool ended() const { return checkpoints_ && checkpoints_->ended(); }

  // Sets the best metric, which the next save stores. First concludes the previous save, which may have
  // failed.
  void set_best(runs::RunState& state, double figure);
  // Copies the model's weights for the next save: they may be averages, unlike the other tensors.
  void take_weights(nn::Module& model, std::int64_t epoch, std::int64_t step);
  // Starts a save. `tensors`: state of the steps for a resume; absent if the checkpoint of this step already
  // has weights and tensors, and only the run state changes.
  void save(std::int64_t step, const std::optional<std::vector<optim::NamedTensor>>& tensors,
            const runs::RunState& state, bool best);

  // By checkpoint.every_steps.
  bool due(std::int64_t step) const { return passes_multiple(saved_, step, every_steps_); }
  // Whether the newest checkpoint has the weights and tensors of that step. Only the first rank knows of
  // failed saves.
  bool holds(std::int64_t step) const { return held_ == step; }
  // The tensors have changed without a step.
  void expire() { held_ = -1; }
  // Whether the last save was of that step and has not failed so far.
  bool saved(std::int64_t step) const { return saved_ == step && error_.empty(); }
  // Error of the last save, or "".
  const std::string& error() const { return error_; }

 private:
  RunOutput& output_;
  std::optional<runs::Checkpoints> checkpoints_;  // absent on ranks that write nothing
  const std::int64_t every_steps_;
  // Steps: of the last save; see holds(); of the last checkpoint in the metrics.
  std::int64_t saved_, held_ = -1, recorded_ = -1;
  std::string error_;
  std::optional<runs::RunState> before_best_;  // to be restored if the save under way fails
};

}  // namespace tandem::train
