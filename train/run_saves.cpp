#include "train/run_saves.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "config/load.h"

namespace tandem::train {

config::Json config_without_run_dir(const config::Config& config) {
  config::Json json = config::resolved(config);
  json.erase("run_dir");
  return json;
}

RunSaves::RunSaves(RunOutput& output, const config::Config& config, const tasks::Data& data,
                   std::int64_t step, bool converted)
    : output_(output), every_steps_(config.checkpoint.every_steps.value_or(0)), saved_(step) {
  if (output.directory())
    checkpoints_.emplace(*output.directory(), config.checkpoint.keep, data.description(),
                         config_without_run_dir(config));
  if (step > 0) recorded_ = step;
  if (step > 0 && !converted) held_ = step;
}

void RunSaves::conclude(runs::RunState& state) {
  if (!checkpoints_) return;
  try {
    const auto saved = checkpoints_->finish();
    if (!saved) return;
    // A step is saved before and after its evaluation, perhaps by two processes.
    if (std::exchange(recorded_, saved->step) != saved->step)
      output_.metrics().write_checkpoint(saved->step, saved->path);
    error_.clear();
    before_best_.reset();
  } catch (const std::exception& error) {
    if (!output_.survives_write_errors()) throw;
    error_ = error.what();
    expire();
    if (const auto before = std::exchange(before_best_, {})) {
      state.best = before->best;
      state.best_epoch = before->best_epoch;
      state.best_checkpoint = before->best_checkpoint;
    }
    output_.warn(fmt::format("the checkpoint was not saved: {}; training goes on (checkpoint.on_save_error)",
                             error.what()));
  }
}

void RunSaves::set_best(runs::RunState& state, double figure) {
  conclude(state);
  before_best_ = state;
  state.best = figure;
  state.best_epoch = state.epoch;
}

void RunSaves::take_weights(nn::Module& model, std::int64_t epoch, std::int64_t step) {
  if (checkpoints_) checkpoints_->take_weights(model, epoch, step);
}

void RunSaves::save(std::int64_t step, const std::optional<std::vector<optim::NamedTensor>>& tensors,
                    const runs::RunState& state, bool best) {
  if (checkpoints_) {
    const auto mark = output_.metrics().mark();
    if (tensors) {
      checkpoints_->save(step, *tensors, state, best, mark);
    } else {
      checkpoints_->save_state(step, state, best, mark);
    }
  }
  saved_ = held_ = step;
}

}  // namespace tandem::train
