// Checkpoints of a run: saving and loading (files: runs/checkpoint_store.h). A save copies all tensors
// between two steps and writes in the background. A checkpoint exists before the evaluation of its step, and
// is updated after it.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "files/safetensors.h"
#include "nn/module.h"
#include "optim/averaging_start.h"
#include "optim/loss_scaler.h"
#include "optim/plateau.h"
#include "runs/checkpoint_store.h"
#include "runs/metrics_record.h"
#include "runs/run_directory.h"

namespace tandem::runs {

// State of a run between two steps, without tensors.
struct RunState {
  std::int64_t epoch = 1;                 // 1-based, of the next sample
  Index position = 0;                     // samples of the epoch that were trained on
  std::vector<double> epoch_losses{0.0};  // of these, by phase: sum of losses weighted by samples
  double epoch_samples = 0.0;             // sum of these weights
  Index training_samples = 0;             // in an epoch; 0: unknown
  std::optional<double> best;             // value of checkpoint.best
  std::int64_t best_epoch = 0;
  std::string best_checkpoint;  // "step-120"
  std::int64_t diagnosed = 0;   // overflows that were replayed, up to precision.diagnose
  // State of schedule.plateau and of asgd, which depends on evaluations.
  optim::PlateauState plateau{};
  optim::AveragingState averaging{};
};

// The state in run.json. Throws UserError that names `place` for invalid states.
config::Json to_json(const RunState& state);
RunState run_state_in(const config::Json& json, const std::string& place);

struct SavedState {
  RunState run;
  std::vector<optim::NamedTensor> tensors;
};

class Checkpoints {
 public:
  // `data`: description of the data, `config`: resolved configuration; checkpoints contain both.
  Checkpoints(const RunDirectory& directory, std::int64_t keep, config::Json data, config::Json config);
  ~Checkpoints();  // waits for the save under way

  // A save has two parts, since the weights may be averages while the state must not be. The first waits for
  // the previous save (see `finish`); the second returns after all tensors were copied.
  void take_weights(nn::Module& model, std::int64_t epoch, std::int64_t step);
  // `best`: sets pointer `best` to this checkpoint. `metrics`: mark of metrics.jsonl. `tensors`: state of the
  // steps for a resume.
  void save(std::int64_t step, const std::vector<optim::NamedTensor>& tensors, const RunState& state,
            bool best, const std::optional<MetricsMark>& metrics = {});

  // The same for a step that is already saved with the same tensors: writes only the run state.
  void save_state(std::int64_t step, const RunState& state, bool best,
                  const std::optional<MetricsMark>& metrics = {});

  bool under_way() const { return writing_.valid(); }
  bool ended() const;  // whether `finish` would return a result without waiting
  // Waits for the save under way; absent if there is none. Throws VendorError if it failed; previous
  // checkpoints are untouched then.
  std::optional<SavedStep> finish();

  // The newest checkpoint with correct digests; `notes` gets a line for each damaged one before it. Absent if
  // the run has saved none; throws UserError if all are damaged.
  std::optional<std::string> newest_whole(std::vector<std::string>& notes) const;
  config::Json config_of(const std::string& checkpoint) const;
  // Mark of metrics.jsonl in the checkpoint; absent in checkpoints of older versions.
  std::optional<MetricsMark> metrics_of(const std::string& checkpoint) const;
  // All checkpoints up to a step, oldest first.
  std::vector<SavedStep> until(std::int64_t step) const;
  // The state in an intact checkpoint.
  SavedState load(const std::string& checkpoint) const;
  // Sets pointer `best` to the best checkpoint of that state; clears the state's best metric if that
  // checkpoint is missing.
  void adopt(RunState& state);

 private:
  // `tensors`: also writes weights and state.
  void write(std::int64_t step, bool tensors, const RunState& state, bool best,
             const std::optional<MetricsMark>& metrics);

  CheckpointStore store_;
  std::string metrics_copy_;
  std::int64_t keep_;
  config::Json data_;
  config::Json config_;
  safetensors::Image weights_, state_;
  std::future<SavedStep> writing_;
};

// The content of a state.safetensors and its run.json. Throws UserError for other files.
SavedState read_state(const safetensors::File& file);

// Description of the data, saved with weights; throws UserError if the file has none.
config::Json saved_data(const std::string& weights);
bool has_saved_data(const safetensors::File& weights);

// Path of weights of the run that contain a description of their data, which all of them have; they may be
// damaged otherwise. "" if there are none.
std::string weights_with_data(const RunDirectory& run);
// Whether a run has a checkpoint, intact or damaged.
bool has_checkpoint(const RunDirectory& run);

// Run state of the newest intact checkpoint; absent if there is none.
std::optional<RunState> newest_state(const RunDirectory& run);

// Summary of a checkpoint's state.safetensors and its run.json, in a few sentences; "" for other files.
std::string state_summary(const safetensors::File& file);

}  // namespace tandem::runs
