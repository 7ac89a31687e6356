// Options of batches for a loop, whatever they hold: their size, the order of the samples, the threads that
// load them.
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
  Index overfit_batches = 0;  // train and evaluate on the first so many batches only; 0: off
  Index evaluated_at_once() const { return eval_batch_size.value_or(batch_size); }
  static const options::Schema& schema();
};

}  // namespace tandem::datasets
