// Ema: exponential moving averages of the masters and of the running statistics, in f32. With `uniform`:
// their plain mean over all steps since begin(), the averaging of ASGD.
//
// The averages are updated when a step commits; a skipped step leaves them. Evaluation with the averages:
//   { optim::Ema::Scope averaged(*step.ema());  evaluate(model); }
// The averages start as the values at `start` (Polyak and Juditsky, "Acceleration of stochastic approximation
// by averaging", 1992; the warm-up of the decay is that of TensorFlow's ExponentialMovingAverage).
#pragma once

#include "core/step_state.h"
#include "optim/flat_buffers.h"

namespace tandem::optim {

struct EmaOptions {
  double decay = 0.999;
  bool warm_up = true;   // see AverageRule
  bool uniform = false;  // the mean since begin(); ignores `decay`
};

class Ema {
 public:
  // `statistics`: number of elements of the live statistics. Throws UserError unless 0 <= decay < 1.
  Ema(const FlatBuffers& buffers, Index statistics, const EmaOptions& options);
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  // Copies the current masters and `statistics`, the live ones as one flat f32 tensor (absent when there are
  // none). Allocates nothing.
  void start(const Tensor& statistics);

  // Begins a uniform mean over the steps after the first `applied` ones. No effect after the first call.
  void begin(std::int64_t applied);
  bool uniform() const { return options_.uniform; }
  // Whether averages exist after `applied` steps. A uniform mean has none before the first step after
  // begin().
  bool active(std::int64_t applied) const { return !uniform() || (follows() && applied > begun_); }
  // Whether steps change the averages.
  bool follows() const { return !uniform() || begun_ >= 0; }
  // Applied steps at begin(), or -1 before it. Saved in checkpoints.
  std::int64_t& begun() { return begun_; }

  // Adds the result of the step in `state` (a StepState in device memory). `applied`, used by a uniform mean
  // only, counts this step if it is applied.
  void update(const Tensor& state, std::int64_t applied = 0);

  // In the layout of the masters and of the live statistics.
  const Tensor& average() const { return average_; }
  const Tensor& average_statistics() const { return average_statistics_; }
  // Whether the model currently holds the averages.
  bool swapped_in() const { return swapped_in_; }

  // Within the scope the model's weights and statistics are the averages; afterwards they are restored
  // exactly. Throws UserError inside another scope of the same Ema. If the device fails to restore them, the
  // model keeps the averages, swapped_in() stays true, and a step refuses to train it.
  class Scope {
   public:
    explicit Scope(Ema& ema);
    ~Scope();  // leaves; ignores device errors
    // Ends the scope early, once. Throws VendorError when the device fails.
    void leave();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    void leave_if_possible() noexcept;

    Ema& ema_;
    Tensor masters_, statistics_;  // the values to restore; absent once restored
  };

 private:
  EmaOptions options_;
  Tensor masters_, statistics_;
  Tensor average_, average_statistics_;
  bool swapped_in_ = false;
  std::int64_t begun_ = -1;  // see begun()
};

}  // namespace tandem::optim
