// Step: one training step as a transaction.
//
//   for each micro-batch:  forward; step.backward(loss, samples);
//   step.apply();          // join shards → check and norm → decide → update → commit
//
// A step is applied or skipped as a whole; the device decides (core/step_state.h). A skipped step keeps bit
// for bit: masters, moments, update counts, running statistics and their counters, averages, schedule,
// `applied`. A skipped step still advances `attempted`, `skipped`, the loss scale and its counters.
//
// The host never waits in a step: it reads the outcome as a StepReport, at most one step late. Nothing is
// allocated from the system after the first step. On a device with recording (Backend::record), micro-batches
// and the end of a step can be replayed, see optim/recorded_step.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "nn/module.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "optim/step/counters.h"
#include "optim/step/loss_gradients.h"
#include "optim/step/micro_batches.h"
#include "optim/step/options.h"
#include "optim/step/rate_table.h"
#include "optim/step/report.h"
#include "optim/step/shard_accumulator.h"
#include "optim/step/trained_state.h"

namespace tandem {
class Backend;
}

namespace tandem::optim {

// Recorded work of a step; made and used by one Step, which must outlive it.
class RecordedBackward;
class RecordedApply;
class GivenState;

class Step {
 public:
  // Moves the module's trainable parameters and its statistics into flat buffers; freeze before, not after.
  // The optimizers must outlive the step. Throws UserError when a trainable parameter belongs to no optimizer
  // or to two, when an optimizer has a parameter of another module, when learning rates contradict each
  // other, and for numbers out of range. If it throws (even for lack of memory), nothing has moved: the
  // parameters stay with the step that had them.
  Step(nn::Module& module, const std::vector<Optimizer*>& optimizers, StepOptions options = {});
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // Backward of one micro-batch (or of loss `loss_index` with ScalerScope::loss), seeded with the loss scale
  // from device memory. `loss` is a mean over `samples` (examples or tokens); the step's gradient is the mean
  // over all of its samples. With equal counts the seed is the scale itself and the update divides by the
  // count. `samples` may also be a sum of weights, or 0 for a micro-batch that does not count; a step with
  // only such micro-batches has zero gradients. See PartWeight.
  // Several losses are summed; a missing loss counts as 0. Throws UserError beyond `accumulate` calls for a
  // loss, after unscale(), for a loss that backward() refuses, when a leaf has a gradient from elsewhere, and
  // inside an Ema::Scope. A failed backward drops the step's gradients, see clear().
  void backward(const Tensor& loss, PartWeight samples = 1.0, int loss_index = 0);
  // With StepOptions::shards: call before the forward of a micro-batch, to restore what its shard has
  // accumulated. `overlap`: see ShardAccumulator. No effect otherwise.
  void enter_shard(bool overlap = true);
  // Replaces backward() for a micro-batch of a shard without samples, which has no loss.
  void pass();
  // Divides the gradients of the leaves by the scale in place, for code that reads or changes them before
  // apply(): custom clipping (optim/clip.h), measurements. Without it, apply() unscales in the pass of the
  // update. A gradient that is not finite here skips the step even if it is changed later. Throws UserError
  // without a backward, on a second call, after an apply() that waits for LossScaler::update(), and with a
  // sharded update, where each process has only its part of the gradients.
  void unscale();
  // Whether all micro-batches are done.
  bool ready() const { return micro_batches_.ready(); }
  // Ends the step. Fewer micro-batches than `accumulate` are fine (the end of an epoch); none is a UserError.
  // A parameter without a gradient keeps its value, moments and update count. `times` (finite, at least 0)
  // multiplies the learning rate of this step only; unless it is 1, the host waits for the step before the
  // last one.
  void apply(double times = 1.0);
  // Discards the micro-batches since the last apply: gradients, running statistics, and their non-finite
  // losses. (Losses of a shared scaler with ScalerScope::loss stay counted.)
  void clear();

  // Records and executes `forward`, which returns the loss, and backward(loss, samples, loss_index), for the
  // next micro-batch. Everything that `forward` reads must stay at its address for every replay; random
  // numbers come from a counter (random_counter). It may run modules of other steps; they must outlive the
  // recording. Run some ordinary steps first. Throws UserError if the device records no work, and whatever
  // forward and the device throw; the step is then as before and can continue without recording.
  std::unique_ptr<RecordedBackward> record_backward(const std::function<Tensor()>& forward,
                                                    PartWeight samples, int loss_index = 0);
  // Replays a recording instead of calling backward. Throws UserError for a micro-batch of another number, or
  // when the micro-batches before it left gradients on other parameters.
  void backward(RecordedBackward& recorded);
  // The same for apply(), for steps with as many micro-batches and samples in the same proportion.
  std::unique_ptr<RecordedApply> record_apply();
  void apply(RecordedApply& recorded);
  // Whether `recorded` can end the current step. With StepOptions::shards all processes exchange their
  // weights.
  bool fits(const RecordedApply& recorded) const;
  // Whether all steps end alike. False while a uniform mean is running, which weighs each step differently.
  bool ends_alike() const {
    return !trained_.ema() || !trained_.ema()->uniform() || !trained_.ema()->follows();
  }

  // Scale of the gradients of slot i of buffers(), relative to the loss scale: 2^log2_scales[i]
  // (amp/segmented_loss_scale.h). Unscaling divides by it. Holds from the next step until set again;
  // recordings keep the value they were made with. Not part of state(). Throws UserError within a step, for
  // another number of slots, beyond ±126, and with ScalerScope::loss.
  void set_segment_scales(std::span<const int> log2_scales);
  // See RateFactor. Holds from the next step until set again. Not part of state().
  void set_rate_factor(const RateFactor& factor) { rates_.set_factor(factor); }
  // Begins the uniform mean of StepOptions::ema with the next step. Synchronises. Throws UserError without
  // such a mean; no effect after the first call.
  void begin_average();

  // The count of attempted or applied steps in device memory, for RandomKey::counter. In forward and backward
  // it excludes the current step.
  const std::int64_t* random_counter(bool applied = false) const;

  // The report of the last step, or of the one before while the last is still running.
  StepReport last_report();
  // The report of the last step; synchronises. For evaluation, checkpoints and the end.
  StepReport synchronize();
  // Whether the report of the last step has arrived.
  bool arrived();
  // The report of one of the last two steps, by its number; synchronises.
  StepReport report_of(std::int64_t attempted);

  std::int64_t attempted() const { return attempted_; }         // needs no synchronisation
  int micro_batches() const { return micro_batches_.count(); }  // calls of backward since the last apply
  const StepOptions& options() const { return options_; }
  // Lower bound on memory traffic of the optimizer update, in bytes: reads of gradients, reads and writes of
  // masters, moments and averages, writes of working copies, copies of statistics. Sparse tables count only
  // the rows touched by the last step (synchronises); EMA counts all rows.
  std::int64_t update_bytes() const { return trained_.update_bytes(); }
  // The scaler in use, and this step's scale as f32 scalar on the device: the seed for a custom backward
  // (gradient penalties).
  LossScaler& scaler() { return *scaler_; }
  // Names of the tables whose updates are lazy (Sparse::lazy) and therefore differ from dense ones.
  std::vector<std::string> lazy_tables() const;
  Tensor loss_scale(int loss_index = 0) const { return scaler_->scale(scale_index(loss_index)); }
  const FlatBuffers& buffers() const { return trained_.buffers(); }
  Ema* ema() { return trained_.ema(); }  // nullptr without StepOptions::ema

  // Everything needed to resume bit for bit, by name: masters, statistics, moments, counts, averages,
  // counters and scale, and within an accumulation the gradients so far. The tensors share the step's memory
  // and change with it. Synchronises.
  // Throws UserError within a step over shards. With a sharded update (StepOptions::update_parts) this is a
  // collective call: the first process gets the whole state, the others a state without moments.
  // `prefix` precedes every name ("discriminator.", with its dot), so that one file can hold several steps. A
  // shared scaler is not included: save it once by LossScaler::state().
  std::vector<NamedTensor> state(std::string_view prefix = {});
  // The part of state() that every process holds: all but the moments of a sharded update. Not collective.
  std::vector<NamedTensor> common_state(std::string_view prefix = {});
  // With a sharded update, a collective call: all-gathers the gradients of the last step into the flat buffer
  // for inspection. No effect otherwise.
  void gather_gradients() { trained_.gather_gradients(); }
  // Loads the state(prefix) of a step over the same model with the same optimizers; ignores names with
  // another prefix. Load a shared scaler before its steps. Throws UserError, before anything is changed, that
  // lists missing and unexpected names or the first tensor of another shape or dtype.
  void load_state(const std::vector<NamedTensor>& state, std::string_view prefix = {});
  // Converts the state of a step over the same model in another precision for load_state: casts masters,
  // moments and averages to this step's types and keeps this step's current loss scale.
  std::vector<NamedTensor> converted(std::vector<NamedTensor> state, std::string_view prefix = {});

 private:
  // ready → unscale() → unscaled → apply() → stepped → (the scaler's update) → ready
  enum class Phase : std::uint8_t { ready, unscaled, stepped };

  Backend& backend() const;
  Phase phase() const;
  bool per_loss() const { return loss_gradients_ != nullptr; }
  int scale_index(int loss_index) const { return per_loss() ? loss_index : scale_index_; }
  void take_over();

  void check_backward(int loss_index) const;
  PartWeight begin_micro_batch(PartWeight samples, int loss_index);
  void enqueue_backward(const Tensor& loss, PartWeight weight, int loss_index);
  Tensor seed_for(const Tensor& loss, double weight, int loss_index) const;
  void check_apply() const;
  void check_shards() const;
  const Tensor& prepare_apply(double times = 1.0);
  void fill_rates();
  const Tensor& rates_for(double times);
  std::int64_t averaged_as();
  void enqueue_apply(const Tensor& rates, std::int64_t applied);
  void give_back_gradients();
  void join_shards();
  void gather();
  void check_and_decide(const Tensor& rates);
  void finish_step();
  void forget_micro_batches();
  void forget_gathered();
  void check_recordable() const;

  void settle_counters();
  LateCounters::Outcome outcomes() const;
  StepState gathered_state() const;
  void write_state(const StepState& state);
  Tensor accumulation_state() const;
  std::vector<NamedTensor> state_with(std::vector<NamedTensor> trained, std::string_view prefix);
  const Tensor& gradients_so_far();
  bool has_gradient_so_far(std::size_t slot) const;
  std::vector<char> slots_with_gradient() const;
  void set_slots_with_gradient(const std::vector<char>& slots);
  struct Incoming;
  Incoming expected(const GivenState& given);
  void resume(const Incoming& incoming, const StepState& loaded);

  StepOptions options_;
  nn::Module& module_;
  TrainedState trained_;
  LateCounters counters_;

  std::unique_ptr<LossScaler> own_scaler_;
  LossScaler* scaler_ = nullptr;
  int scale_index_ = 0;
  std::int64_t applied_in_ = -1;                   // scaler iteration of the last apply()
  std::unique_ptr<LossGradients> loss_gradients_;  // absent without ScalerScope::loss

  std::unique_ptr<ShardAccumulator> shards_;  // absent without shards
  double total_weight_ = 0.0;                 // of the micro-batches of all shards, after join_shards()

  MicroBatches micro_batches_;  // since the last apply
  bool unscaled_ = false;
  std::int64_t attempted_ = 0;
  StepRules rules_;
  Tensor state_;  // StepState in device memory
  RateTable rates_;
  ReportMailbox mailbox_;
};

}  // namespace tandem::optim
