// Step: one training step as a transaction.
//
//   for each micro-batch:  forward; step.backward(loss, samples);
//   step.apply();          // reduce → check and norm → decide → update → commit
//
// A step is applied or skipped as a whole, and the device decides (core/step_state.h). A skipped step leaves
// bit for bit as they were: masters, moments, update counts, running statistics and their counters, averages,
// schedule, `applied`. What advances all the same: `attempted`, `skipped`, the loss scale and its counters.
//
// The host never waits in a step: it reads the outcome as a StepReport when it has arrived, at most one step
// late. Nothing is requested from the system after the first step. On a device that records (Backend::record)
// a step can be done from recordings of its micro-batches and of its end, see optim/recorded_step.cpp.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "optim/ema.h"
#include "optim/flat_buffers.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedules.h"

namespace tandem::optim {

struct StepOptions {
  ScalerOptions scaler{};
  LossScaler* shared_scaler = nullptr;  // instead of a scaler of its own; must outlive the step
  // The learning rate; without one it is the optimizer's. With one, the first optimizer's lr is either not
  // given or the schedule's peak; further optimizers keep their ratio to the first.
  std::optional<Schedule> schedule{};
  std::optional<double> clip_norm{};   // of the mean gradient, all parameters together
  std::optional<double> clip_value{};  // of every element, after clip_norm
  int accumulate = 1;                  // micro-batches a step has at most
  std::optional<EmaOptions> ema{};
  // The type of the copies that the forward pass of a mixed-precision run reads instead of the masters; the
  // update writes them in its one pass. Absent: no copies.
  std::optional<DType> working{};
  // No masters: what the update stores is rounded as if the buffers had a 16-bit type. The values of the
  // parameters at the start are rounded too.
  StorageRounding rounding{};
  // Running statistics are held on the grid of this 16-bit type. Absent: f32.
  std::optional<DType> round_statistics{};
  bool skip_non_finite = true;  // off: a non-finite gradient is applied like any other
  // Whether the gradients are read once for finiteness and norm. Off saves that pass; then nothing is skipped
  // and no norm is reported. clip_norm needs it.
  bool measure = true;
  double divisor =
      1.0;  // the gradients are divided by this too: the number of ranks where `reduce` adds them up
  // Called with the flat gradients before they are checked; parameters without a gradient then take part with
  // zeros.
  std::function<void(const Tensor& gradients)> reduce{};
};

struct StepReport {
  std::int64_t attempted = 0, applied = 0, skipped = 0;  // counts, this step included
  std::int64_t consecutive_skips = 0;
  bool skip = false;             // this step was skipped
  double learning_rate = 0.0;    // of this step, before group factors
  double loss = 0.0;             // mean over the step's samples; of several losses their sum
  double gradient_norm = 0.0;    // before clipping; NaN when not finite or not measured
  double clip_factor = 1.0;      // by norm
  double loss_scale = 1.0;       // that this step used
  double next_loss_scale = 1.0;  // of the next one
  bool exhausted = false;        // the scale cannot fall further and gradients overflow still
};

// Work of a step that a device has recorded; made and used by one Step, which it must not outlive.
class RecordedBackward;
class RecordedApply;

class Step {
 public:
  // Moves the module's trainable parameters and its statistics into flat buffers; freeze before, not after.
  // Copies what it needs of the optimizers. Throws UserError when a trainable parameter belongs to no
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
  // instead, and 0 for a micro-batch that counts nothing; a step of nothing else has gradients of zero.
  // Several losses add up to one; a micro-batch that lacks one of them counts it as 0. Throws UserError
  // beyond `accumulate` calls for a loss, after unscale(), for a loss that backward() refuses, when gradients
  // are there that no call of this made, and inside an Ema::Scope. A failed backward drops the step's
  // gradients, see clear().
  void backward(const Tensor& loss, double samples = 1.0, int loss_index = 0);
  // Divides the gradients of the leaves by the scale in place, for code that looks at them or changes them
  // before apply(): a clipping of one's own (optim/clip.h), a measurement. apply() does so by itself in the
  // pass of the update. What is not finite here skips the step, whatever becomes of it. Throws UserError
  // without a backward, when called twice, and after an apply() that waits for LossScaler::update().
  void unscale();
  // All micro-batches are there.
  bool ready() const { return micro_batches_ == options_.accumulate * losses(); }
  // Ends the step; fewer micro-batches than `accumulate` are fine (the end of an epoch), none is a UserError.
  // A parameter without a gradient keeps its value, moments and update count.
  void apply();
  // Forgets the micro-batches since the last apply: gradients and running statistics.
  void clear();

  // Records and does `forward`, which returns the loss, and backward(loss, samples), for the micro-batch of
  // the number that is due. Whatever `forward` reads must lie where it will lie at every later use; random
  // numbers come from a counter (random_counter). Run some steps the usual way first. Throws UserError where
  // the device does not record, with a shared scaler or several losses, and with StepOptions::reduce; and
  // what forward and the device throw. The step is as before then, and can go on the usual way.
  std::unique_ptr<RecordedBackward> record_backward(const std::function<Tensor()>& forward, double samples);
  // Does the recorded work instead of calling backward. Throws UserError for a micro-batch of another number.
  void backward(RecordedBackward& recorded);
  // The same for apply(): for steps of as many micro-batches, with samples in the same proportion.
  std::unique_ptr<RecordedApply> record_apply();
  void apply(RecordedApply& recorded);
  // Whether the step that is due for apply() can be ended with it.
  bool fits(const RecordedApply& recorded) const;

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

  std::int64_t attempted() const { return attempted_; }  // known without waiting
  int micro_batches() const { return micro_batches_; }   // calls of backward since the last apply
  const StepOptions& options() const { return options_; }
  // Bytes that an applied step must move at least after its backwards: gradients read, masters, moments and
  // averages read and written, working copies written, statistics copied; each once.
  std::int64_t update_bytes() const;
  // The scaler in use, and this step's scale as f32 scalar on the device: to seed a backward of one's own
  // (gradient penalties) with.
  LossScaler& scaler() { return *scaler_; }
  Tensor loss_scale(int loss_index = 0) const { return scaler_->scale(scale_index(loss_index)); }
  const FlatBuffers& buffers() const { return buffers_; }
  Ema* ema() { return ema_.get(); }  // nullptr without StepOptions::ema

  // Everything a run needs to go on bit for bit, by name: masters, statistics, moments, counts, averages,
  // counters and scale, and inside an accumulation the gradients so far. The tensors share the step's memory
  // and change with it. Waits for the device.
  std::vector<NamedTensor> state();
  // Takes what state() gave on a step over the same model with the same optimizers. Throws UserError, before
  // anything is changed, that lists missing and unexpected names or the first tensor of another shape or
  // dtype.
  void load_state(const std::vector<NamedTensor>& state);
  // A state of a step over the same model that ran in another precision, as load_state takes it: masters,
  // moments and averages are cast to this step's types, the loss scale is this step's own as it is now.
  std::vector<NamedTensor> converted(std::vector<NamedTensor> state);

 private:
  struct Group {  // one optimizer
    Optimizer optimizer;
    std::vector<UpdateRange> ranges;  // of all its parameters, in the order of the buffers
    std::vector<UpdateRange> active;  // those with a gradient in this step
  };

  // ready → unscale() → unscaled → apply() → stepped → (the scaler's update) → ready
  enum class Phase : std::uint8_t { ready, unscaled, stepped };

  void check_options() const;
  void check_backward(int loss_index) const;
  void begin_micro_batch(double samples, int loss_index);
  void enqueue_backward(const Tensor& loss, double weight, int loss_index);
  void end_micro_batch(double weight, int loss_index);
  void check_apply() const;
  void enqueue_apply();
  void check_recordable() const;
  void refresh_working_copies() const;
  Phase phase() const;
  bool per_loss() const { return scaler_->options().scope == ScalerScope::loss; }
  int losses() const { return scaler_->options().losses; }
  int scale_index(int loss_index) const { return per_loss() ? loss_index : scale_index_; }
  void unscale_loss(int loss_index);
  void sanitize(const std::vector<UpdateRange>& ranges, int scale_index);
  void take_accumulated();
  double heaviest() const;
  double weight() const;
  StepState gathered_state() const;
  void reset_gathered();
  void take_over();
  void round_initial();
  void check_and_decide();
  void update_groups();
  void assign_parameters(const nn::Module& module, const std::vector<Optimizer*>& optimizers);
  void resolve_schedule();
  void allocate_moments();
  void allocate_derived();
  void allocate_state();
  Tensor seed_for(const Tensor& loss, double weight, int loss_index) const;
  void collect_ranges();
  void fill_table();
  void count_batches();
  void settle_counters();
  void record();
  StepReport report(std::size_t slot) const;
  StepState host_state();
  const Tensor& gradients_so_far() const;
  bool has_gradient_so_far(std::size_t slot) const;
  Tensor accumulation_state() const;
  std::vector<NamedTensor> persistent_state();

  StepOptions options_;
  nn::Module& module_;
  FlatBuffers buffers_;
  nn::StatisticBuffers statistics_;
  // The host learns a step's outcome late, so what its forward added to each counter waits here, of even and
  // odd steps: next = live + what waits + what the current step has added.
  std::vector<nn::Counter> counters_;
  std::array<std::vector<std::int64_t>, 2> waiting_;
  std::int64_t settled_ = 0;  // attempted steps whose outcome the counters have
  std::vector<Group> groups_;
  std::optional<Schedule> schedule_;
  std::array<Tensor, 3> moments_;
  Tensor working_;  // 16-bit copies of the masters, in the layout of the buffers, or absent
  Tensor counts_;
  std::unique_ptr<Ema> ema_;
  StepRules rules_;

  std::unique_ptr<LossScaler> own_scaler_;
  LossScaler* scaler_ = nullptr;
  int scale_index_ = 0;
  bool unscaled_ = false;
  std::int64_t applied_in_ = -1;  // iteration of the scaler in which apply() was called last
  // With a scale for each loss: the sum of the unscaled gradients so far, and which slots have one.
  Tensor accumulated_;
  std::vector<char> has_accumulated_;
  std::vector<UpdateRange> fresh_, further_;

  Tensor state_;  // StepState in device memory
  Tensor table_;  // learning rates, see Backend::decide
  Tensor table_host_;
  std::int64_t table_end_ = 0;       // applied counts the table serves lie below
  std::vector<UpdateRange> active_;  // of all optimizers
  std::array<Tensor, 2> reports_;    // host copies of the state and its scale, of even and odd steps
  std::array<std::uint64_t, 2> marks_{};
  std::int64_t attempted_ = 0;
  struct Calls {  // of backward for one loss since the last apply
    int count = 0;
    double weight = 0.0;  // their samples, in units of reference_
  };
  std::vector<Calls> calls_;  // one for each loss
  int micro_batches_ = 0;
  double reference_ = 1.0;  // samples of the first call that had any
};

}  // namespace tandem::optim
