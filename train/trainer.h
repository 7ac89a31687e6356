// Trainer: the loop over epochs and batches of one run. An iteration is one step of each phase of the task in
// turn, over the same micro-batches; most tasks have one phase. Processes that train together all run this
// loop, see train/process_group.h.
//
// Every random number is a function of (seed, attempted step, micro-batch). A configuration therefore
// reproduces a run bit for bit, and a resumed run has the same results as an uninterrupted one.
//
// The pipeline (train/step_pipeline.h) diagnoses and retries steps that overflow in 16 bits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/calibration.h"
#include "amp/segmented_loss_scale.h"
#include "config/task.h"
#include "data/loader.h"
#include "runs/checkpoints.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "tasks/skipped_samples.h"
#include "train/evaluate.h"
#include "train/learners.h"
#include "train/process_group.h"
#include "train/setup.h"
#include "train/signals.h"
#include "train/step_runners.h"

namespace tandem::train {

struct TrainerOptions {
  std::optional<std::int64_t> limit_steps;  // stop after this number of steps of the whole run
  bool quiet = false;
  bool resume = false;                      // `directory` holds a run to resume
  std::string weights{};                    // of that run, to get its classes; "": none are saved
  parallel::Communicator* ranks = nullptr;  // all ranks that train together; null for a single process
};

// `diverged`: loss, weights or gradients ran away; the run is saved.
enum class TrainStatus { completed, interrupted, failed, diverged };

// "completed", …: the status in metrics.jsonl.
const char* name_of(TrainStatus status);

struct TrainResult {
  TrainStatus status = TrainStatus::completed;
  std::string failure;         // one line, if failed or diverged
  std::string split;           // of `metrics`
  runs::Metrics metrics;       // of the last evaluation
  std::int64_t epoch = 0;      // of that evaluation
  std::optional<double> best;  // value of checkpoint.best on the split `chosen_on`
  std::int64_t best_epoch = 0;
  std::string chosen_on;  // "test" if no validation samples are held out
  std::int64_t steps = 0;
  double wall_s = 0.0, train_s = 0.0;
};

class Trainer {
 public:
  // Opens the data and builds all objects. Throws UserError if they do not fit together. Not collective, nor
  // is `dry_run`.
  Trainer(const config::Loaded& loaded, TrainerOptions options);
  ~Trainer();

  // Reads every sample, and computes forward and loss of the first batch. Returns a report for people.
  std::string dry_run();

  // Throws AgreedError with the difference if ranks differ in configuration, data, program, CPU level or
  // weights. `run` calls it too, but needs a run directory.
  void compare_ranks();

  // Trains into `directory`, from its newest checkpoint if `resume` is set and there is one. Failures of
  // training are in the result; errors of files and memory are thrown after the end event was written. If
  // metrics cannot be written, the run ends after a save, or continues as checkpoint.on_save_error says. Only
  // the first rank passes a directory, others nullptr. A common failure of all ranks is an AgreedError; after
  // any other exception, the rank must abort the others.
  TrainResult run(const runs::RunDirectory* directory, const std::string& command_line,
                  const StopRequest& stop);

 private:
  struct Session;
  struct Resumed;
  void make_loaders();
  void make_learners();
  void check_ranks(std::string_view when);
  void begin(Session& session, const std::string& command_line, const std::vector<std::string>& warnings,
             const std::vector<std::string>& notes);
  void share_outcome(Session& session);
  // Lines about data and model; line about the length of the run, its precision and device.
  std::vector<std::string> data_and_model_lines() const;
  std::string run_line() const;
  void warn_of_underflow(Session& session);
  amp::Calibration calibrated(Session& session);
  void calibrate_scale(Session& session);
  void set_segments(Session& session);
  void train(Session& session);
  bool train_epoch(Session& session);
  void take_batch(Session& session, std::vector<MicroBatch>& batches);
  void end_iteration(Session& session, std::vector<MicroBatch>& batches);
  void finish_steps(Session& session);
  void report_skipped(Session& session);
  std::vector<optim::NamedTensor> tensors_to_save(const Session& session);
  void save(Session& session, const runs::RunState& state, bool best, bool anew);
  void save_inside_epoch(Session& session);
  void save_unevaluated(Session& session);
  void save_before_evaluation(Session& session, AveragedWeights& averaged);
  void take_weights(Session& session, AveragedWeights& averaged);
  Resumed read_checkpoint(const runs::RunDirectory& directory, std::vector<std::string>& notes,
                          std::vector<std::string>& warnings);
  void take_state(Resumed& resumed);
  void repair_metrics(const runs::RunDirectory& directory, const Resumed& resumed,
                      std::vector<std::string>& warnings);
  Resumed resume(const runs::RunDirectory* directory, std::vector<std::string>& notes,
                 std::vector<std::string>& warnings);
  void adopt_algorithms(const runs::RunDirectory& directory, std::vector<std::string>& notes);
  bool evaluate_and_save(Session& session, bool whole, bool last);
  bool take_figure(Session& session, bool whole);
  std::optional<Evaluated> evaluate_now(Session& session, DistributedEvaluation& pass, bool details);
  std::string training_losses(const Session& session) const;
  void write_artifact(Session& session, const tasks::Artifact& artifact);
  void write_artifacts(Session& session, const Evaluated& evaluated);
  void write_distributions(Session& session);
  void set_rate_factor(const runs::RunState& state);
  bool test_best(Session& session);
  std::optional<std::string> divergence(const Session& session);
  void interrupt(Session& session);
  void check_outcome(Session& session);
  void check_metrics_written(Session& session);
  void end(Session& session);
  std::int64_t steps_per_epoch() const;
  bool limit_reached() const;

  const config::Loaded& given_;
  const config::Loaded loaded_;  // with the global batch size of all ranks
  const config::Config& config_;
  const Device device_;
  TrainerOptions options_;
  ProcessGroup ranks_;
  config::Json rank_facts_;  // a list, filled by compare_ranks()
  tasks::SkippedSamples skipped_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<datasets::Loader> train_loader_;
  std::unique_ptr<DistributedEvaluation> validation_, test_;  // validation; final test, if the two differ
  std::unique_ptr<amp::ResolvedPrecision> precision_;
  std::vector<std::string> notes_;                  // of initialisation
  std::optional<double> unit_;                      // of part weights, see unit_of_parts
  std::unique_ptr<optim::ShardExchange> exchange_;  // outlives the steps; null if batches are not divided
  std::unique_ptr<parallel::RankPeers>
      peers_;  // outlives the runners; null unless batch norm is synchronised
  std::unique_ptr<Learners> learners_;
  std::unique_ptr<amp::SegmentedLossScale> borders_;  // outlives the runners; null without scale segments
  StageTimer stages_;
  std::unique_ptr<StepRunners> runners_;
};

}  // namespace tandem::train
