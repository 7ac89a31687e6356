// What fills a batch: the work on its samples.
#pragma once

#include <span>

#include "data/batch_buffer.h"

namespace tandem::datasets {

struct BuildContext {
  const Dataset& dataset;
  const Pipeline& pipeline;
  const BatchLayout& layout;
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  bool parallel = true;  // on the OpenMP team of this thread
  BatchWeight weigh{};
};

// Reads, transforms and mixes `samples` into `buffer`; where the layout has records, reads them and draws
// their windows. Rethrows the error of the first sample, in batch order, that failed.
void build_batch(const BuildContext& context, std::span<const std::uint32_t> samples, BatchBuffer& buffer);

}  // namespace tandem::datasets
