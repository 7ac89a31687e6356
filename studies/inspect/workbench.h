// Workbench: model, data, loss and optimizer of a configuration or a run, for single steps outside of a run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "config/task.h"
#include "data/loader.h"
#include "runs/metrics.h"
#include "runs/weights.h"
#include "train/learners.h"
#include "train/setup.h"

namespace tandem::train {

class Workbench {
 public:
  // `weights` without a path: the initial weights of the configuration. If the data cannot be opened, batches
  // are noise of the shape in the weights' description of their data; without a description, the error is
  // thrown. `batch_size` 0: that of the configuration.
  Workbench(const config::Loaded& loaded, const runs::Weights& weights, Index batch_size = 0);
  ~Workbench();

  const config::Loaded& loaded() const { return loaded_; }
  const config::Config& config() const { return config_; }
  nn::Module& model() { return task_->model(); }
  tasks::Task& task() { return *task_; }
  // Notes for the user: missing data, loaded weights.
  const std::vector<std::string>& notes() const { return notes_; }

  // The next training batch; restarts at the end of an epoch.
  datasets::Batch next_batch();
  // Forward and loss of a batch in a phase, with the random numbers of step `step`.
  Tensor loss(const datasets::Batch& batch, const amp::ResolvedPrecision& resolved, std::uint32_t step = 0,
              std::size_t phase = 0);
  std::size_t phases() const { return phases_; }
  // Metrics of the current weights on the held-out split, in FP32. Throws UserError without data.
  runs::Metrics evaluate();
  // Optimizers and steps of the given precision for the model; only one set may exist. Learning rates are
  // constant without a schedule.
  std::unique_ptr<Learners> make_learners(const amp::Precision& precision,
                                          const std::optional<optim::Schedule>& schedule = {});

 private:
  const config::Loaded& loaded_;
  const config::Config& config_;
  std::vector<std::string> notes_;
  std::unique_ptr<datasets::Loader> loader_, held_out_;  // null: noise
  Index batch_size_ = 1;
  std::uint32_t served_ = 0;
  std::unique_ptr<tasks::Task> task_;
  std::size_t phases_ = 1;
};

}  // namespace tandem::train
