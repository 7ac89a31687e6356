// Weights as commands and init_from are given them: best, last or step-N of a run, or a path.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "nn/module.h"
#include "runs/run_directory.h"

namespace tandem::runs {

struct Weights {
  std::string path{};   // of a safetensors file; "": those that training starts from
  config::Json data{};  // the description of the data that they were trained on; null where nothing says it
};

// The file that a path means: itself, that of a checkpoint's folder, the one that a run's checkpoints/best or
// latest names, or the best of a run. Nothing where there is no such path. Throws UserError for any other
// folder, a damaged checkpoint, and a run without weights.
std::optional<std::string> weights_at(const std::string& path);

// The file that `which` means for a run: best, step-N, last (the newest whole checkpoint), or a path as
// above. These names are the run's, whatever files the working directory has; ./best is a file. Throws
// UserError when there is none of that name, or it is damaged.
std::string weights_path(const RunDirectory& run, const std::string& which);

// The same with the description in the file or, where no run saved it, in the run's newest whole checkpoint.
Weights weights_of(const RunDirectory& run, const std::string& which);
// A file of no run.
Weights weights_in(const std::string& file);

// Loads weights by name. Throws UserError unless the file has the tensors of `model`, all of them and no
// others.
void load_weights(const std::string& file, nn::Module& model);

}  // namespace tandem::runs
