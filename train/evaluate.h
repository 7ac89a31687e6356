// One pass over a split, without gradients.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/loader.h"
#include "tasks/task.h"
#include "train/process_group.h"
#include "train/signals.h"

namespace tandem::train {

// Runs the task's model in evaluation mode over one epoch of `loader`, and restores its mode afterwards.
std::unique_ptr<tasks::Evaluation> evaluate(tasks::Task& task, datasets::Loader& loader,
                                            bool details = false);

// Result of a pass. All ranks have the metrics; the first rank also has the evaluation, which holds the
// results of all ranks.
struct Evaluated {
  tasks::Metrics metrics;
  std::unique_ptr<tasks::Evaluation> evaluation;
};

// Distributed evaluation of a split: ranks take batches in turn. If state is carried from batch to batch,
// each rank skips through the batches of the others. Metrics are bit-identical to a single-process
// evaluation.
class DistributedEvaluation {
 public:
  DistributedEvaluation(tasks::Task& task, std::string split, Device device, ProcessGroup& ranks);

  const std::string& split() const { return split_; }
  // As `evaluate`. Returns nothing if a stop was requested on any rank before the last batch. A failure of
  // one rank is thrown as AgreedError on all ranks.
  std::optional<Evaluated> run(bool details, const StopRequest& stop);

 private:
  tasks::Task& task_;
  const std::string split_;
  ProcessGroup& ranks_;
  Index batches_;                             // of all ranks
  bool all_ = true;                           // the loader has all batches, not only those of this rank
  std::unique_ptr<datasets::Loader> loader_;  // absent if this rank has no batches
};

// The value of metric `name`; absent if it is not defined for the evaluated samples.
std::optional<double> figure(const tasks::Metrics& metrics, std::string_view name);

// "accuracy 0.9261  top5 0.9989  loss 0.2210". A metric `wanted` that is missing is shown as "AP –".
std::string metrics_text(const tasks::Metrics& metrics, std::string_view wanted = {});

}  // namespace tandem::train
