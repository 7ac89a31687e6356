// StepRunner: the training steps of one phase of a task on one device, micro-batch by micro-batch.
//
// Where the device records work, micro-batches of the full size, and the updates of full steps, are recorded
// after some ordinary steps and done from the recordings from then on; everything else is done the usual way,
// with the same bits. A recording holds the weight of its micro-batch in the step, and serves those of the
// same weight.
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
  automatic,  // where the device can, and goes on without where recording fails
  on,         // throws UserError where the device cannot
  off
};

struct StepRunnerOptions {
  Index batch_size = 0;  // samples of a full micro-batch: only those are recorded
  std::uint64_t seed = 0;
  // Random numbers are numbered by the applied steps before this one, not by the attempted ones, so that a
  // step that is done again draws the same ones.
  bool number_by_applied = false;
  GraphUse graphs = GraphUse::automatic;
  // With whom batch norm takes its statistics; absent: each shard its own. Then every backward() is a call of
  // all ranks.
  parallel::RankPeers* peers = nullptr;
};

class StepRunner {
 public:
  // Of the phase of that number, which `learner` trains. Everything is kept by reference. Throws UserError
  // when graphs are on and cannot be had.
  StepRunner(tasks::Task& task, std::size_t phase, Learner& learner, const amp::ResolvedPrecision& precision,
             StageTimer& stages, StepRunnerOptions options);

  // Forward, losses and backward of the micro-batch that is due. `carry` is what the micro-batch before left,
  // and then what this one leaves. `counts`: its samples in the mean of apply(), where they are not its own:
  // of a batch in shards those of the whole batch, with the last of them. A shard without samples passes.
  void backward(const datasets::Batch& batch, tasks::CarriedState& carry, std::optional<double> counts = {});
  // Ends the step, at a learning rate times the mean Batch::rate_factor of its micro-batches.
  void apply();

  // The loss of a batch as a step that was skipped computed it, with its random numbers and under the
  // precision of the run, outside of any step, by this rank alone. Batch norm has the statistics of the batch
  // as it is. `call`: number of the backward among those of this process in the step.
  Tensor loss_again(const datasets::Batch& batch, tasks::CarriedState carry, int call,
                    const optim::StepReport& skipped);

  // From the next forward on: the borders that its backward changes the scale at, which must outlive this.
  // What was recorded holds none.
  void set_borders(const amp::SegmentedLossScale* borders) { borders_ = borders; }

  // Whether steps are done from recordings by now; and why they will never be, where that was found out.
  bool recorded() const { return apply_ != nullptr; }
  const std::string& why_not_recorded() const { return why_not_; }

 private:
  // One backward of a step, as a device has recorded it, with what it reads and leaves of the carry.
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
  bool records_ = false;  // recordings are made, or will be
  std::string why_not_;
  NoBatchNormPeers alone_;
  int warm_steps_ = 0;                  // ordinary steps so far
  datasets::Batch inputs_;              // what recordings read; absent before the first
  std::vector<RecordedPass> recorded_;  // by number of the backward in the step
  std::unique_ptr<optim::RecordedApply> apply_;
  double factors_ = 0.0,
         counted_ = 0.0;  // of the step under way: sum of its factors, weighted, and the weights
};

// The (seed, step, micro-batch) that a loss draws random numbers under, see RandomScope.
struct RandomNumbers {
  std::uint64_t seed = 0;
  std::uint32_t step = 0, micro_batch = 0;
  const std::int64_t* counter = nullptr;
};

// The sum of the losses of a phase; each of them draws the same random numbers.
Tensor loss_of_phase(tasks::Task& task, std::size_t phase, const datasets::Batch& batch,
                     const RandomNumbers& random, tasks::CarriedState* carry = nullptr,
                     const tasks::OutputsReady& ready = {});

}  // namespace tandem::train
