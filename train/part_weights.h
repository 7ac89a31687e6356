// Weight of a part of a step: a micro-batch, a shard, or a rank's shard. With these weights, a step of
// several parts has the gradient of one batch with all samples.
#pragma once

#include <optional>

#include "data/source.h"
#include "optim/step/micro_batches.h"
#include "tasks/task.h"

namespace tandem::train {

optim::PartWeight part_weight(const tasks::Task& task, const datasets::Batch& part);

// Unit of these weights (optim::MicroBatches) for a run with this number of shards and micro-batches per
// step: the weight of a typical shard. It depends only on data and configuration, so all ranks and a resumed
// run have the same. Absent if the first micro-batch of a step sets it. Reads the first batch of `source`,
// which must not be divided, if the number of samples does not determine it.
std::optional<double> unit_of_parts(const tasks::Task& task, const datasets::SourcePtr& source, int shards,
                                    int micro_batches);

}  // namespace tandem::train
