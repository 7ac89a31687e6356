// Checkpoints, which a run saves and goes on from (see runs/checkpoint_store.h for the files). A checkpoint
// is copied between two steps and written in the background while training goes on. Where an evaluation
// follows a step, the checkpoint is there before it, and says afterwards that it was done.
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

// Where a run stands between two steps.
struct RunState {
  std::int64_t epoch = 1;                 // 1-based, of the next sample
  Index position = 0;                     // samples of the epoch that were served
  std::vector<double> epoch_losses{0.0};  // of those, by phase: sum of the losses, weighted with
  double epoch_samples = 0.0;             // the samples
  Index training_samples = 0;             // that an epoch has; 0: not known
  std::optional<double> best;             // of checkpoint.best
  std::int64_t best_epoch = 0;
  std::string best_checkpoint;  // "step-120"
  std::int64_t diagnosed = 0;   // overflows that were run again, of precision.diagnose
  // What evaluations have made of the learning rate (schedule.plateau) and of averaging (asgd).
  optim::PlateauState plateau{};
  optim::AveragingState averaging{};
};

// As a checkpoint holds it, and back. Throws UserError, naming `place`, for what no run saves.
config::Json to_json(const RunState& state);
RunState run_state_in(const config::Json& json, const std::string& place);

struct SavedState {
  RunState run;
  std::vector<optim::NamedTensor> tensors;
};

class Checkpoints {
 public:
  // `data`: the description of the data, `config`: the resolved configuration; both are saved along.
  Checkpoints(const RunDirectory& directory, std::int64_t keep, config::Json data, config::Json config);
  ~Checkpoints();  // waits for the save under way

  // A save in two halves, since the weights may be averages, which the state must not be. The first waits for
  // the save before it (see `finish`); the second returns when everything has been copied.
  void take_weights(nn::Module& model, std::int64_t epoch, std::int64_t step);
  // `best`: `best` will point at this checkpoint. `metrics`: what metrics.jsonl holds now.
  // `tensors`: what the steps need to go on.
  void save(std::int64_t step, const std::vector<optim::NamedTensor>& tensors, const RunState& state,
            bool best, const std::optional<MetricsMark>& metrics = {});

  // The same of a step that is saved already, with what the steps hold now: only where the run stands is
  // written anew.
  void save_state(std::int64_t step, const RunState& state, bool best,
                  const std::optional<MetricsMark>& metrics = {});

  bool under_way() const { return writing_.valid(); }
  bool ended() const;  // whether `finish` would return at once with what became of a save
  // Waits for the save under way; nothing when there is none. Throws VendorError when it failed; what was
  // saved before is untouched then.
  std::optional<SavedStep> finish();

  // The newest checkpoint whose digests are right; `notes` gets a line for each damaged one before it.
  // Nothing when the run has saved none; throws UserError when all are damaged.
  std::optional<std::string> newest_whole(std::vector<std::string>& notes) const;
  config::Json config_of(const std::string& checkpoint) const;
  // What metrics.jsonl held when it was taken; nothing when an older version saved it.
  std::optional<MetricsMark> metrics_of(const std::string& checkpoint) const;
  // All that are there, oldest first, up to a step.
  std::vector<SavedStep> until(std::int64_t step) const;
  // The state of a whole checkpoint.
  SavedState load(const std::string& checkpoint) const;
  // The run goes on from that state: `best` points at what was best then, or at nothing where that is gone.
  void adopt(RunState& state);

 private:
  // `tensors`: weights and state, too.
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

// What a state.safetensors holds, and the run.json beside it. Throws UserError for a file that is none.
SavedState read_state(const safetensors::File& file);

// The description of the data saved with weights; throws UserError when the file has none.
config::Json saved_data(const std::string& weights);
bool has_saved_data(const safetensors::File& weights);

// Weights of the run that say what they were trained on, as all of a run's do alike; damaged ones may. ""
// where there are none.
std::string weights_with_data(const RunDirectory& run);
// Whether a run has saved any checkpoint, whole or damaged.
bool has_checkpoint(const RunDirectory& run);

// Where the newest whole checkpoint of a run goes on; nothing when there is none.
std::optional<RunState> newest_state(const RunDirectory& run);

// The state in a checkpoint's state.safetensors, and the run.json beside it, in a few sentences; "" when the
// file is no such state.
std::string state_in_words(const safetensors::File& file);

}  // namespace tandem::runs
