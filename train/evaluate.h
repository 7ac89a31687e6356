// One pass over a split without gradients.
#pragma once

#include <memory>

#include "data/loader.h"
#include "tasks/task.h"
#include "train/signals.h"

namespace tandem::train {

// Runs the task's model in evaluation mode over one epoch of `loader` and puts it back into training mode
// when it was in it. Ends early, without a result, when `stop` was asked for.
std::unique_ptr<tasks::Evaluation> evaluate(tasks::Task& task, datasets::Loader& loader, bool details = false,
                                            const StopRequest* stop = nullptr);

// "accuracy 0.9261  top5 0.9989  loss 0.2210"
std::string metrics_text(const tasks::Metrics& metrics);

}  // namespace tandem::train
