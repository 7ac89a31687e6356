// What training takes of memory, known before any of it is taken: the model is built, and one step is taken,
// on the device `shapes` (core/shapes_backend.h), which keeps the allocator's books and nothing else.
#pragma once

#include <string>
#include <vector>

#include "config/task.h"
#include "core/allocator.h"

namespace tandem::train {

struct Footprint {
  Index parameters = 0, trainable = 0;
  std::string largest;            // the largest parameter: "0.weight [8000000,784]"
  std::size_t largest_bytes = 0;  // its master
  // Weights, masters, gradients and optimizer: what stays, and the most while they are set up.
  MemoryFigures model;
  // Those and one step on `batch` samples: at its peak. A backend's own workspace comes on top, and so do the
  // data set and what loaders keep ready.
  MemoryFigures step;
  // Copies of weights and state that a save writes while training goes on (runs/checkpoints.h).
  std::size_t save = 0;
  Index batch = 0;                 // data.batch_size, or all samples where there are fewer
  std::vector<std::string> notes;  // Task::notes_of_data
};

// `update_parts`: processes that divide the update among them; of the first one. In a few milliseconds.
// Throws UserError for a model, rule, loss or optimizer that does not fit the rest.
Footprint footprint_of(const config::Loaded& loaded, const tasks::DataPtr& data, int update_parts = 1);

// "weights 0 B, masters 1.2 GiB, gradients …", and "…" of a step and of a save.
std::string to_string(const Footprint& footprint);

// {"weights": bytes, …, "step_peak": bytes, "batch": samples of that step}.
config::Json to_json(const Footprint& footprint);

// Throws UserError with advice when host memory cannot hold it.
void require_memory(const config::Loaded& loaded, const Footprint& footprint);

}  // namespace tandem::train
