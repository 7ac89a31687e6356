// Memory estimate of training, made before any memory is allocated: the model is built, and one step runs, on
// the device `shapes` (core/shapes_backend.h), which only does the allocator's accounting.
#pragma once

#include <string>
#include <vector>

#include "config/task.h"
#include "core/allocator.h"

namespace tandem::train {

struct Footprint {
  Index parameters = 0, trainable = 0;
  std::string largest;            // the largest parameter: "0.weight [8000000,784]"
  std::size_t largest_bytes = 0;  // of its master weights
  // Weights, masters, gradients and optimizer state; the peak includes their initialisation.
  MemoryFigures model;
  // The same and one step on `batch` samples, at its peak. Excludes workspaces of a backend, the data set and
  // prefetched batches.
  MemoryFigures step;
  // The step for each nn::Recompute, in a model of Transformer blocks; else empty.
  std::vector<MemoryFigures> recompute;
  std::size_t save = 0;            // copies of weights and state that a save writes while training goes on
  Index batch = 0;                 // data.batch_size, or all samples if there are fewer
  std::vector<std::string> notes;  // Task::notes_of_data
};

// Estimate for the first of `update_parts` processes that divide the update. Takes a few milliseconds. Throws
// UserError if model, rule, loss or optimizer do not fit together.
Footprint footprint_of(const config::Loaded& loaded, const tasks::DataPtr& data, int update_parts = 1);

// "weights 0 B, masters 1.2 GiB, gradients …", then the peak of a step and the memory of a save.
std::string to_string(const Footprint& footprint);
// "model.recompute: none 1.3 GiB, 812 MiB of it activations; mlp …"; "" for other models.
std::string recompute_text(const Footprint& footprint);

// {"weights": bytes, …, "step_peak": bytes, "activations": bytes of it, "batch": samples in that step}, and
// in a model of Transformer blocks "recompute": {"none": {"step_peak": bytes, "activations": bytes}, …}.
config::Json to_json(const Footprint& footprint);

// Throws UserError with advice if host memory is too small.
void require_memory(const config::Loaded& loaded, const Footprint& footprint);

}  // namespace tandem::train
