// RunSaves: the checkpoints that a session of a run saves, one under way at a time, and what is known of
// them. On ranks that write nothing it counts steps alone.
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

// The configuration of a run, which may have been moved since: without where it lies.
config::Json config_without_run_dir(const config::Config& config);

class RunSaves {
 public:
  // `step`: iterations of the checkpoint that the run goes on from, 0 where there is none; unless
  // `converted`, its tensors are what the steps hold. `output` is kept by reference.
  RunSaves(RunOutput& output, const config::Config& config, const tasks::Data& data, std::int64_t step,
           bool converted);

  // Waits for the save under way, if any, and tells what became of it. One that failed throws, or is a
  // warning where the run survives that; what it held is no best figure of `state` then.
  void conclude(runs::RunState& state);
  // Whether conclude() has something to tell at once.
  bool ended() const { return checkpoints_ && checkpoints_->ended(); }

  // The figure is the best one, with the next save. Concludes the one before: what it could not write is no
  // best one.
  void set_best(runs::RunState& state, double figure);
  // Takes the weights of the next save from the model: they may be averages, which the rest must not be.
  void take_weights(nn::Module& model, std::int64_t epoch, std::int64_t step);
  // Begins a save. `tensors`: what the steps need to go on; absent where the checkpoint of this step has
  // weights and tensors, and only where the run stands is another.
  void save(std::int64_t step, const std::optional<std::vector<optim::NamedTensor>>& tensors,
            const runs::RunState& state, bool best);

  // Of checkpoint.every_steps.
  bool due(std::int64_t step) const { return passes_multiple(saved_, step, every_steps_); }
  // Whether the newest checkpoint has the weights and tensors of that step; known to the first rank: others
  // take a failed save for one.
  bool holds(std::int64_t step) const { return held_ == step; }
  // The tensors of the steps have changed without a step.
  void expire() { held_ = -1; }
  // Whether the last save was of that step, and went well as far as is known.
  bool saved(std::int64_t step) const { return saved_ == step && error_.empty(); }
  // Of the last save; empty when it went well.
  const std::string& error() const { return error_; }

 private:
  RunOutput& output_;
  std::optional<runs::Checkpoints> checkpoints_;  // absent on ranks that write nothing
  const std::int64_t every_steps_;
  // Steps: of the last save; see holds(); of the save that metrics were told of last.
  std::int64_t saved_, held_ = -1, told_ = -1;
  std::string error_;
  std::optional<runs::RunState> before_best_;  // what is best if the save under way fails
};

}  // namespace tandem::train
