// StepRunner: the training steps of one phase of a task on one device, micro-batch by micro-batch.
//
// If the device records work, full micro-batches and the updates of full steps are recorded after some
// ordinary steps and replayed from then on, with the same bits. Other work runs as usual. A recording holds
// the weight of its micro-batch in the step, and is replayed only for that weight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/segmented_loss_scale.h"
#include "core/error.h"
#include "data/loader.h"
#include "nn/module.h"
#include "optim/recorded_step.h"
#include "optim/step.h"
#include "parallel/rank_peers.h"
#include "tasks/task.h"
#include "train/learners.h"
#include "train/stages.h"

namespace tandem::train {

enum class GraphUse : std::uint8_t {
  automatic,  // if the device can; continues without graphs if recording fails
  on,         // throws UserError if the device cannot
  off
};

struct StepRunnerOptions {
  Index batch_size = 0;  // samples of a full micro-batch; others are not recorded
  std::uint64_t seed = 0;
  // Random numbers depend on the number of applied steps instead of attempted ones, so a retried step draws
  // the same ones.
  bool number_by_applied = false;
  GraphUse graphs = GraphUse::automatic;
  // Ranks of synchronised batch norm; null: each shard has its own statistics. If set, backward() is
  // collective.
  parallel::RankPeers* peers = nullptr;
};

class StepRunner {
 public:
  // `learner` trains the phase of that number. All references are kept. Throws UserError if graphs are on but
  // not possible.
  StepRunner(tasks::Task& task, std::size_t phase, Learner& learner, const amp::ResolvedPrecision& precision,
             StageTimer& stages, StepRunnerOptions options);

  // Forward, losses and backward of the next micro-batch. `carry`: the state that the previous micro-batch
  // left; receives that of this one. `counts`: number of samples for the mean in apply(), if not the batch's
  // own: for shards, the last one has those of the whole batch. A shard without samples is skipped.
  void backward(const datasets::Batch& batch, tasks::CarriedState& carry, std::optional<double> counts = {});
  // Ends the step. The learning rate is multiplied by the mean Batch::rate_factor of its micro-batches.
  void apply();

  // The loss of a batch as a skipped step computed it, with its random numbers and precision; outside of any
  // step and not collective. Batch norm uses the statistics of the batch alone. `call`: number of the
  // backward among those of this process in the step.
  Tensor loss_again(const datasets::Batch& batch, tasks::CarriedState carry, int call,
                    const optim::StepReport& skipped);

  // Sets the segment borders at which later backwards change the scale; they must outlive this. Recordings
  // made before have no borders.
  void set_borders(const amp::SegmentedLossScale* borders) { borders_ = borders; }

  // Whether steps are replayed from recordings; and the reason why they never will be, if known.
  bool recorded() const { return apply_ != nullptr; }
  const std::string& why_not_recorded() const { return why_not_; }

 private:
  // A recorded backward of a step, with the carried state that it reads and leaves.
  struct RecordedPass {
    std::unique_ptr<optim::RecordedBackward> backward;
    tasks::CarriedState before, after;
    optim::PartWeight weight;
  };

  std::uint32_t draw_number(int call) const;
  void backward_passes(const datasets::Batch& batch, tasks::CarriedState& carry);
  int passes() const { return learner_.separate_losses ? learner_.phase.losses : 1; }
  Tensor forward(const datasets::Batch& batch, tasks::CarriedState& carry, int micro_batch, int pass);
  void backward_pass(const datasets::Batch& batch, optim::PartWeight weight, tasks::CarriedState& carry,
                     int micro_batch, int pass);
  optim::PartWeight weight_of(const datasets::Batch& batch) const;
  void count_factor(const datasets::Batch& batch, double counts);
  double rate_factor() const;
  bool may_record(const datasets::Batch& batch) const;
  void set_up_inputs(const datasets::Batch& batch);
  bool record(const datasets::Batch& batch, optim::PartWeight weight, tasks::CarriedState& carry,
              int micro_batch, int pass);
  bool record_apply();
  void stop_recording(const VendorError& error);

  tasks::Task& task_;
  const std::size_t phase_;
  Learner& learner_;
  optim::Step& step_;
  const amp::ResolvedPrecision& precision_;
  const amp::SegmentedLossScale* borders_ = nullptr;
  StageTimer& stages_;
  const StepRunnerOptions options_;
  bool records_ = false;  // recordings are made now or later
  std::string why_not_;
  NoBatchNormPeers alone_;
  int warm_steps_ = 0;                  // ordinary steps so far
  datasets::Batch inputs_;              // input of recordings; empty before the first
  std::vector<RecordedPass> recorded_;  // by number of the backward in the step
  std::unique_ptr<optim::RecordedApply> apply_;
  double factors_ = 0.0, counted_ = 0.0;  // of the current step: weighted sum of rate factors, sum of weights
};

// The (seed, step, micro-batch) from which a loss draws random numbers, see RandomScope.
struct RandomNumbers {
  std::uint64_t seed = 0;
  std::uint32_t step = 0, micro_batch = 0;
  const std::int64_t* counter = nullptr;
};

// The sum of the losses of a phase. Each loss draws the same random numbers.
Tensor loss_of_phase(tasks::Task& task, std::size_t phase, const datasets::Batch& batch,
                     const RandomNumbers& random, tasks::CarriedState* carry = nullptr,
                     const tasks::OutputsReady& ready = {});

}  // namespace tandem::train
