// Trainer: the loop over epochs and batches of one run. An iteration is a step of each phase of the task in
// turn, over the same micro-batches; most tasks have one. Where several processes train together, all of them
// go through it side by side, see train/process_group.h.
//
// Every random number is a function of (seed, attempted step, micro-batch), so a run is reproduced bit for
// bit by its configuration, and goes on after an interruption as if there had been none.
//
// Steps that overflow in 16 bits are diagnosed and retried by the pipeline (train/step_pipeline.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/autocast.h"
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
  std::optional<std::int64_t> limit_steps;  // stop after so many steps, counted over the whole run
  bool quiet = false;
  bool resume = false;                      // `directory` holds a run to go on with
  std::string weights{};                    // of that run, whose classes its data has; "": none are saved
  parallel::Communicator* ranks = nullptr;  // that train together, this one among them; nullptr: it is alone
};

// `diverged`: training ran away, by its loss, its weights or its gradients; the run is saved.
enum class TrainStatus { completed, interrupted, failed, diverged };

// "completed", …: as metrics.jsonl says it.
const char* name_of(TrainStatus status);

struct TrainResult {
  TrainStatus status = TrainStatus::completed;
  std::string failure;         // one line, when it failed or diverged
  std::string split;           // of `metrics`
  runs::Metrics metrics;       // of the last evaluation
  std::int64_t epoch = 0;      // after which that was
  std::optional<double> best;  // of checkpoint.best, on the split that chose
  std::int64_t best_epoch = 0;
  std::string chosen_on;  // that split; "test" where no validation samples are set aside
  std::int64_t steps = 0;
  double wall_s = 0.0, train_s = 0.0;
};

class Trainer {
 public:
  // Opens the data and builds everything; throws UserError for what does not fit. Does not communicate, nor
  // does `dry_run`.
  Trainer(const config::Loaded& loaded, TrainerOptions options);
  ~Trainer();

  // Reads every sample, and makes a forward pass and a loss on the first batch; returns
  // what was built and found, for people.
  std::string dry_run();

  // Throws AgreedError, naming the difference, where ranks differ in what must be the same: configuration,
  // data, program, level of the CPU, weights. `run` does so, too; before it, a run directory need not be
  // there.
  void compare_ranks();

  // Trains into `directory`, from its newest checkpoint where `resume` says so and there is one. Failures of
  // training itself are in the result; errors of files and memory are thrown after the end event was written.
  // A course that cannot be written ends the run after a save, or goes on as checkpoint.on_save_error says.
  // Of several ranks the first has a directory, the others nullptr. What all of them failed in is an
  // AgreedError on every rank; with any other exception a rank is alone, and has to abort the others.
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
  // Data and model, a line each; how long a run takes, in steps, and in which precision and where.
  std::vector<std::string> what_trains() const;
  std::string course() const;
  void warn_of_underflow(Session& session);
  void calibrate_scale(Session& session);
  void set_segments(Session& session);
  void train(Session& session);
  bool train_epoch(Session& session);
  void take_batch(Session& session, std::vector<MicroBatch>& batches);
  void end_iteration(Session& session, std::vector<MicroBatch>& batches);
  void finish_steps(Session& session);
  void tell_skipped(Session& session);
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
  void take_choices(const runs::RunDirectory& directory, std::vector<std::string>& notes);
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
  void check_course(Session& session);
  void end(Session& session);
  std::int64_t steps_per_epoch() const;
  bool limit_reached() const;

  const config::Loaded& given_;
  const config::Loaded loaded_;  // with the batch size of all ranks together
  const config::Config& config_;
  const Device device_;
  TrainerOptions options_;
  ProcessGroup ranks_;
  config::Json rank_facts_;  // once they have been compared: a list
  tasks::SkippedSamples skipped_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<datasets::Loader> train_loader_;
  std::unique_ptr<DistributedEvaluation> chooses_,
      test_;  // what chooses the best epoch; what is looked at in the end
  std::unique_ptr<amp::ResolvedPrecision> precision_;
  std::vector<std::string> notes_;                  // of initialisation
  std::optional<double> unit_;                      // of the weights of parts, see unit_of_parts
  std::unique_ptr<optim::ShardExchange> exchange_;  // outlives the steps; absent with undivided batches
  std::unique_ptr<parallel::RankPeers> peers_;      // outlives the runners; absent unless batch norm has any
  std::unique_ptr<Learners> learners_;
  std::unique_ptr<amp::SegmentedLossScale>
      borders_;  // outlives the runners; absent without segments of the scale
  StageTimer stages_;
  std::unique_ptr<StepRunners> runners_;
};

}  // namespace tandem::train
