// One pass over a split without gradients.
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

// Runs the task's model in evaluation mode over one epoch of `loader` and puts it back into training mode
// when it was in it.
std::unique_ptr<tasks::Evaluation> evaluate(tasks::Task& task, datasets::Loader& loader,
                                            bool details = false);

// What a pass has found: figures on every rank, the evaluation with its files on the first, which took what
// all of them measured.
struct Evaluated {
  tasks::Metrics metrics;
  std::unique_ptr<tasks::Evaluation> evaluation;
};

// A split that ranks evaluate together: each measures a batch in turn, and where something is carried from
// batch to batch, passes by those of the others. Figures are to the bit those of a process that is alone.
class DistributedEvaluation {
 public:
  DistributedEvaluation(tasks::Task& task, std::string split, Device device, ProcessGroup& ranks);

  const std::string& split() const { return split_; }
  // As `evaluate`. Ends early, without a result, when any rank was asked to stop before the last batch. What
  // one rank fails in is an AgreedError on all of them.
  std::optional<Evaluated> run(bool details, const StopRequest& stop);

 private:
  tasks::Task& task_;
  const std::string split_;
  ProcessGroup& ranks_;
  Index batches_;                             // of all ranks
  bool all_ = true;                           // the loader has them all, not those of this rank alone
  std::unique_ptr<datasets::Loader> loader_;  // absent when none is for this rank
};

// The value of `name`; nothing where it is not defined for the samples that were evaluated.
std::optional<double> figure(const tasks::Metrics& metrics, std::string_view name);

// "accuracy 0.9261  top5 0.9989  loss 0.2210"; with `wanted`, a figure that is not among them is "AP –".
std::string metrics_text(const tasks::Metrics& metrics, std::string_view wanted = {});

}  // namespace tandem::train
