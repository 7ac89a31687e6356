// The files below checkpoints/ of a run.
//
//   last.safetensors, best.safetensors, epoch-N.safetensors   weights, with the description of the data
//   state.safetensors                                         what it takes to go on where the run stopped
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/module.h"
#include "optim/step.h"
#include "train/run_directory.h"
#include "train/setup.h"

namespace tandem::train {

// Where a run stands between two steps.
struct RunState {
  std::int64_t epoch = 1;      // 1-based, of the next sample
  Index position = 0;          // samples of the epoch that were served
  std::optional<double> best;  // of checkpoint.best
  std::int64_t best_epoch = 0;
  std::int64_t diagnosed = 0;  // overflows that were run again, of precision.diagnose
};

class Checkpoints {
 public:
  Checkpoints(RunDirectory directory, std::int64_t keep, DataDescription data);

  // Writes epoch-N and makes `last` the same; removes the oldest epoch-N beyond `keep`. Returns the path
  // written.
  std::string save_epoch(nn::Module& model, std::int64_t epoch, std::int64_t step);
  std::string save_last(nn::Module& model, std::int64_t epoch, std::int64_t step);
  std::string save_best(nn::Module& model, std::int64_t epoch, std::int64_t step);

  void save_state(optim::Step& step, const RunState& state);
  // Throws UserError when there is none, or it belongs to another model.
  RunState load_state(optim::Step& step);

 private:
  void save(const std::string& path, nn::Module& model, std::int64_t epoch, std::int64_t step) const;
  void prune() const;

  RunDirectory directory_;
  std::int64_t keep_;
  DataDescription data_;
};

// Loads weights by name into `model`; `which` is best, last, epoch-N, or a file. Returns the path.
std::string load_run_weights(const RunDirectory& run, const std::string& which, nn::Module& model);
// The description of the data saved with them; throws UserError when the file has none.
DataDescription saved_data(const std::string& weights);
// The file that `which` means for a run.
std::string weights_path(const RunDirectory& run, const std::string& which);

}  // namespace tandem::train
