#include "train/part_weights.h"

#include "data/loader.h"

namespace tandem::train {

using tasks::PartCounts;

optim::PartWeight part_weight(const tasks::Task& task, const datasets::Batch& part) {
  switch (task.part_counts()) {
    case PartCounts::weight:
      return part.weight;
    case PartCounts::measured:
      return task.measured_weight(part);
    case PartCounts::samples:
      break;
  }
  return static_cast<double>(part.samples);
}

std::optional<double> unit_of_parts(const tasks::Task& task, const datasets::SourcePtr& source, int shards,
                                    int micro_batches) {
  const PartCounts counts = task.part_counts();
  if (shards == 1 && (micro_batches == 1 || counts != PartCounts::measured)) return std::nullopt;
  const datasets::ShardSpec first{.parts = shards, .first = 0, .count = 1};
  if (counts == PartCounts::samples) return static_cast<double>(first.most(source->layout().samples()));
  const auto batch = datasets::Loader(source).next();
  const double divisor = part_weight(task, *batch).divisor;
  return (divisor > 0.0 ? divisor : static_cast<double>(batch->samples)) / shards;
}

}  // namespace tandem::train
