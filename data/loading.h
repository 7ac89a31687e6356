// Options of batching: batch size, order of the samples, worker threads.
#pragma once

#include <optional>

#include "core/options/schema.h"
#include "core/shape.h"

namespace tandem::datasets {

struct LoadingOptions {
  Index batch_size = 128;
  std::optional<Index> eval_batch_size{};  // absent: batch_size
  Index workers = 0, prefetch = 2;         // of a Loader (data/loader.h)
  bool shuffle = true, drop_last = false;
  Index overfit_batches = 0;  // train and evaluate on the first N batches only; 0: off
  Index evaluated_at_once() const { return eval_batch_size.value_or(batch_size); }
  static const options::Schema& schema();
};

}  // namespace tandem::datasets
