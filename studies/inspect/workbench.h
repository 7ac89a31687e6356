// Workbench: the model, data, loss and optimizer of a configuration or a run, for single steps outside of a
// run.
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
  // `weights` without a path: those that the configuration starts from. Where the data cannot be opened,
  // batches are noise in the shape that the weights' data is described with; without a description the error
  // of the data is thrown. `batch_size` 0: the configuration's.
  Workbench(const config::Loaded& loaded, const runs::Weights& weights, Index batch_size = 0);
  ~Workbench();

  const config::Loaded& loaded() const { return loaded_; }
  const config::Config& config() const { return config_; }
  nn::Module& model() { return task_->model(); }
  tasks::Task& task() { return *task_; }
  // What the user should know: that the data is missing, which weights were loaded.
  const std::vector<std::string>& notes() const { return notes_; }

  // The next training batch; begins anew when the epoch is over.
  datasets::Batch next_batch();
  // Forward and loss of a batch in a phase under `plan`, with the random numbers of step `step`.
  Tensor loss(const datasets::Batch& batch, const amp::ResolvedPrecision& plan, std::uint32_t step = 0,
              std::size_t phase = 0);
  std::size_t phases() const { return phases_; }
  // The metrics of the weights as they are on the held-out split, in FP32. Throws UserError without data.
  runs::Metrics evaluate();
  // Training steps of the given precision over the workbench's model: one at a time. Without a schedule the
  // rates of the optimizers are constant.
  std::unique_ptr<Learners> make_learners(const amp::Precision& precision,
                                          const std::optional<optim::Schedule>& schedule = {});

 private:
  const config::Loaded& loaded_;
  const config::Config& config_;
  std::vector<std::string> notes_;
  std::unique_ptr<datasets::Loader> loader_, held_out_;  // absent: noise
  Index batch_size_ = 1;
  std::uint32_t served_ = 0;
  std::unique_ptr<tasks::Task> task_;
  std::size_t phases_ = 1;
};

}  // namespace tandem::train
