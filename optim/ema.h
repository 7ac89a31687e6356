// Ema: exponential moving averages of the masters and of the running statistics, in f32.
//
// Or, with `uniform`, their plain mean over all steps since begin(), the averaging of ASGD.
//
// Updated when a step commits, never by a skipped one. Evaluation with the averages:
//   { optim::Ema::Scope averaged(*step.ema());  evaluate(model); }
// The averages start as the values at `start` (Polyak and Juditsky, "Acceleration of stochastic
// approximation by averaging", 1992; the warm-up of the decay is that of TensorFlow's
// ExponentialMovingAverage).
#pragma once

#include "core/step_state.h"
#include "optim/flat_buffers.h"

namespace tandem::optim {

struct EmaOptions {
  double decay = 0.999;
  bool warm_up = true;   // see AverageRule
  bool uniform = false;  // the mean since begin(), whatever `decay` says
};

class Ema {
 public:
  // `statistics`: elements of the live statistics. Throws UserError unless 0 <= decay < 1.
  Ema(const FlatBuffers& buffers, Index statistics, const EmaOptions& options);
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  // Begins with the masters as they are and with `statistics`, the live ones as one flat f32 tensor, absent
  // when there are none. Asks for no memory.
  void start(const Tensor& statistics);

  // Of a uniform mean: it is of what the steps from now on leave, after `applied` ones. Nothing where it
  // began before.
  void begin(std::int64_t applied);
  bool uniform() const { return options_.uniform; }
  // Whether there are averages after `applied` steps: not of a uniform mean before the first one that follows
  // begin().
  bool active(std::int64_t applied) const { return !uniform() || (follows() && applied > begun_); }
  // Whether steps change the averages.
  bool follows() const { return !uniform() || begun_ >= 0; }
  // The applied steps at begin(); -1: that was not called. For files.
  std::int64_t& begun() { return begun_; }

  // Follows what the step in `state` (a StepState in device memory) left. Of a uniform mean, `applied` are
  // the applied steps with this one, if it is.
  void update(const Tensor& state, std::int64_t applied = 0);

  // Laid out as the masters and as the live statistics.
  const Tensor& average() const { return average_; }
  const Tensor& average_statistics() const { return average_statistics_; }
  // Whether the model holds the averages now.
  bool swapped_in() const { return swapped_in_; }

  // The model's weights and statistics are the averages within the scope and exactly what they were after it.
  // Throws UserError inside another scope of the same Ema. Where a device fails to put them back, the model
  // keeps the averages and swapped_in() stays: a step refuses to train it then.
  class Scope {
   public:
    explicit Scope(Ema& ema);
    ~Scope();  // leaves; an error of the device is not told
    // Ends the scope before its time, once. Throws VendorError when the device fails.
    void leave();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    void leave_if_possible() noexcept;

    Ema& ema_;
    Tensor masters_, statistics_;  // what is put back; absent when that has been done
  };

 private:
  EmaOptions options_;
  Tensor masters_, statistics_;
  Tensor average_, average_statistics_;
  bool swapped_in_ = false;
  std::int64_t begun_ = -1;  // see begun()
};

}  // namespace tandem::optim
