// Weights as commands and init_from name them: best, last or step-N of a run, or a path.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "nn/module.h"
#include "runs/run_directory.h"

namespace tandem::runs {

struct Weights {
  std::string path{};   // of a safetensors file; "": the initial weights
  config::Json data{};  // description of the data that they were trained on; null if unknown
};

// The weight file that a path names: the file itself, that of a checkpoint folder, of a run's
// checkpoints/best or latest, or of the best checkpoint of a run. Absent if the path does not exist. Throws
// UserError for other folders, damaged checkpoints, and runs without weights.
std::optional<std::string> weights_at(const std::string& path);

// The weight file of a run by name: best, step-N, last (the newest intact checkpoint), or a path as above.
// The names take precedence over files of the working directory; use ./best for such a file. Throws UserError
// if there is none or it is damaged.
std::string weights_path(const RunDirectory& run, const std::string& which);

// The same with the description in the file or, if it has none, in the run's newest intact checkpoint.
Weights weights_of(const RunDirectory& run, const std::string& which);
// A file outside of a run.
Weights weights_in(const std::string& file);

// Loads weights by name. Throws UserError unless the file has exactly the tensors of `model`.
void load_weights(const std::string& file, nn::Module& model);

}  // namespace tandem::runs
