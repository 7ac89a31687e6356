// Step: one training step as a transaction.
//
//   for each micro-batch:  forward; step.backward(loss, samples);
//   step.apply();          // join shards → check and norm → decide → update → commit
//
// A step is applied or skipped as a whole, and the device decides (core/step_state.h). A skipped step leaves
// bit for bit as they were: masters, moments, update counts, running statistics and their counters, averages,
// schedule, `applied`. What advances all the same: `attempted`, `skipped`, the loss scale and its counters.
//
// The host never waits in a step: it reads the outcome as a StepReport when it has arrived, at most one step
// late. Nothing is requested from the system after the first step. On a device that records (Backend::record)
// a step can be done from recordings of its micro-batches and of its end, see optim/recorded_step.cpp.
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

// Work of a step that a device has recorded; made and used by one Step, which it must not outlive.
class RecordedBackward;
class RecordedApply;
class GivenState;

class Step {
 public:
  // Moves the module's trainable parameters and its statistics into flat buffers; freeze before, not after.
  // The optimizers must outlive the step. Throws UserError when a trainable parameter belongs to no
  // optimizer or to two, when an optimizer has a parameter that is not the module's, when learning rates
  // contradict each other, and for numbers out of range. Where it throws, for lack of memory too, nothing has
  // moved: a step that had the parameters still has them.
  Step(nn::Module& module, const std::vector<Optimizer*>& optimizers, StepOptions options = {});
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // Backward of one micro-batch (or of one of several losses, `loss_index` with ScalerScope::loss), seeded
  // with the loss scale, which is read where it lives: on the device. `loss` is a mean over `samples`
  // (examples or tokens); the step's gradient is the mean over all of its samples. With equal counts the seed
  // is the scale itself, and the division happens when the update unscales. `samples` may be a sum of weights
  // instead, and 0 for a micro-batch that counts nothing; a step of nothing else has gradients of zero. See
  // PartWeight.
  // Several losses add up to one; a micro-batch that lacks one of them counts it as 0. Throws UserError
  // beyond `accumulate` calls for a loss, after unscale(), for a loss that backward() refuses, when gradients
  // are there that no call of this made, and inside an Ema::Scope. A failed backward drops the step's
  // gradients, see clear().
  void backward(const Tensor& loss, PartWeight samples = 1.0, int loss_index = 0);
  // With StepOptions::shards: before the forward of a micro-batch, which begins with what its shard has
  // gathered. `overlap`: see ShardAccumulator. Nothing otherwise.
  void enter_shard(bool overlap = true);
  // In place of backward() for a micro-batch of a shard without samples, which has no loss.
  void pass();
  // Divides the gradients of the leaves by the scale in place, for code that looks at them or changes them
  // before apply(): a clipping of one's own (optim/clip.h), a measurement. apply() does so by itself in the
  // pass of the update. What is not finite here skips the step, whatever becomes of it. Throws UserError
  // without a backward, when called twice, after an apply() that waits for LossScaler::update(), and where
  // the update is divided, of whose gradients a process has a part.
  void unscale();
  // All micro-batches are there.
  bool ready() const { return micro_batches_.ready(); }
  // Ends the step; fewer micro-batches than `accumulate` are fine (the end of an epoch), none is a UserError.
  // A parameter without a gradient keeps its value, moments and update count. The learning rate is `times`
  // what it would be, for this step only (at least 0, finite); unless that is 1, the host waits for the step
  // before the last one.
  void apply(double times = 1.0);
  // Forgets the micro-batches since the last apply: gradients and running statistics, and what a loss that
  // was not finite told the scale. (What the losses of a shared scaler with ScalerScope::loss told it stays.)
  void clear();

  // Whether steps are recorded: where the device does.
  bool recordable() const;
  // Records and does `forward`, which returns the loss, and backward(loss, samples, loss_index), for the
  // micro-batch of the number that is due. Whatever `forward` reads must lie where it will lie at every later
  // use; random numbers come from a counter (random_counter). It may run modules of other steps, too; these
  // must outlive the recording. Run some steps the usual way first. Throws UserError unless recordable(), and
  // what forward and the device throw. The step is as before then, and can go on the usual way.
  std::unique_ptr<RecordedBackward> record_backward(const std::function<Tensor()>& forward,
                                                    PartWeight samples, int loss_index = 0);
  // Does the recorded work instead of calling backward. Throws UserError for a micro-batch of another number,
  // or when those before it left gradients elsewhere.
  void backward(RecordedBackward& recorded);
  // The same for apply(): for steps of as many micro-batches, with samples in the same proportion.
  std::unique_ptr<RecordedApply> record_apply();
  void apply(RecordedApply& recorded);
  // Whether the step that is due for apply() can be ended with it. With StepOptions::shards all processes
  // tell each other what theirs weigh.
  bool fits(const RecordedApply& recorded) const;
  // Whether one step ends as the other does: not while a uniform mean follows them, which weighs each
  // otherwise.
  bool ends_alike() const {
    return !trained_.ema() || !trained_.ema()->uniform() || !trained_.ema()->follows();
  }

  // From the next step on, until it is set again: the gradient of the parameter of slot i of buffers() comes
  // to 2^log2_scales[i] times the loss scale, because backward is so (amp/segmented_loss_scale.h), and who
  // divides by the loss scale divides by that. What was recorded holds what was set then. No part of state().
  // Throws UserError within a step, for another number of slots, beyond ±126, and with ScalerScope::loss.
  void set_segment_scales(std::span<const int> log2_scales);
  // From the next step on, until it is set again: see RateFactor. No part of state().
  void set_rate_factor(const RateFactor& factor) { rates_.set_factor(factor); }
  // The uniform mean of StepOptions::ema begins with the next step. Waits for the device. Throws UserError
  // where there is none; nothing where it has begun.
  void begin_average();

  // The count of attempted or of applied steps in device memory, for RandomKey::counter: in forward and
  // backward it is the count before this step.
  const std::int64_t* random_counter(bool applied = false) const;

  // The report of the last step, or of the one before when the last is still under way on an asynchronous
  // device.
  StepReport last_report();
  // The report of the last step; waits for it. For evaluation, checkpoints and the end.
  StepReport synchronize();
  // Whether the report of the last step has arrived.
  bool arrived();
  // The report of one of the last two steps, by its number; waits for it.
  StepReport report_of(std::int64_t attempted);

  std::int64_t attempted() const { return attempted_; }         // known without waiting
  int micro_batches() const { return micro_batches_.count(); }  // calls of backward since the last apply
  const StepOptions& options() const { return options_; }
  // Bytes that an applied step must move at least after its backwards: gradients read, masters, moments and
  // averages read and written, working copies written, statistics copied; each once. Of a table that is
  // updated by rows, the rows of the last step, for which this waits, but averages of all.
  std::int64_t update_bytes() const { return trained_.update_bytes(); }
  // The scaler in use, and this step's scale as f32 scalar on the device: to seed a backward of one's own
  // (gradient penalties) with.
  LossScaler& scaler() { return *scaler_; }
  // Names of the tables whose updates are lazy (Sparse::lazy), and differ from dense ones for it.
  std::vector<std::string> lazy_tables() const;
  Tensor loss_scale(int loss_index = 0) const { return scaler_->scale(scale_index(loss_index)); }
  const FlatBuffers& buffers() const { return trained_.buffers(); }
  Ema* ema() { return trained_.ema(); }  // nullptr without StepOptions::ema

  // Everything a run needs to go on bit for bit, by name: masters, statistics, moments, counts, averages,
  // counters and scale, and inside an accumulation the gradients so far. The tensors share the step's memory
  // and change with it. Waits for the device.
  // Throws UserError within a step over shards. Of a divided update (StepOptions::update_parts) a call of all
  // processes, of which the first gets the whole state, and the others one without moments.
  // `prefix` stands before every name ("discriminator.", with its dot), so that the states of several steps
  // go into one file. A shared scaler is nobody's: LossScaler::state() saves it, once.
  std::vector<NamedTensor> state(std::string_view prefix = {});
  // Of it what every process holds: all, but for the moments of a divided update. No call of others.
  std::vector<NamedTensor> common_state(std::string_view prefix = {});
  // Of a divided update, by all processes: the gradients of the last step are whole in the flat buffer, for
  // who looks at them. Nothing otherwise.
  void gather_gradients() { trained_.gather_gradients(); }
  // Takes what state(prefix) gave on a step over the same model with the same optimizers; what has another
  // prefix is left to others. A shared scaler is loaded before its steps. Throws UserError, before anything
  // is changed, that lists missing and unexpected names or the first tensor of another shape or dtype.
  void load_state(const std::vector<NamedTensor>& state, std::string_view prefix = {});
  // A state of a step over the same model that ran in another precision, as load_state takes it: masters,
  // moments and averages are cast to this step's types, the loss scale is this step's own as it is now.
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
  std::int64_t applied_in_ = -1;                   // iteration of the scaler in which apply() was called last
  std::unique_ptr<LossGradients> loss_gradients_;  // with a scale for each loss, else absent

  std::unique_ptr<ShardAccumulator> shards_;  // of a batch in shards
  double total_weight_ = 0.0;                 // of the micro-batches of all shards, once they are joined

  MicroBatches micro_batches_;  // since the last apply
  bool unscaled_ = false;
  std::int64_t attempted_ = 0;
  StepRules rules_;
  Tensor state_;  // StepState in device memory
  RateTable rates_;
  ReportMailbox mailbox_;
};

}  // namespace tandem::optim
