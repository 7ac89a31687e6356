// The weight of a part of a step: of a micro-batch, of a shard, of a rank's shard, all alike. With it a step
// of several parts has the gradient of one batch that holds all of their samples.
#pragma once

#include <optional>

#include "data/source.h"
#include "optim/step/micro_batches.h"
#include "tasks/task.h"

namespace tandem::train {

optim::PartWeight part_weight(const tasks::Task& task, const datasets::Batch& part);

// The unit of these weights (optim::MicroBatches) for a run whose batches come in so many shards and steps in
// so many micro-batches: that of a usual shard, a function of the data and the configuration, so that all
// ranks and a run that goes on have the same. Absent where the first micro-batch of a step gives it. Reads
// the first batch of `source`, which is not divided, where its samples do not tell.
std::optional<double> unit_of_parts(const tasks::Task& task, const datasets::SourcePtr& source, int shards,
                                    int micro_batches);

}  // namespace tandem::train
