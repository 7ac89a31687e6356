// Ema: exponential moving averages of the masters and of the running statistics, in f32.
//
// Updated when a step commits, never by a skipped one. Evaluation with the averages:
//   { optim::Ema::Scope averaged(*step.ema());  evaluate(model); }
// The averages start as the values at construction (Polyak and Juditsky, "Acceleration of stochastic
// approximation by averaging", 1992; the warm-up of the decay is that of TensorFlow's
// ExponentialMovingAverage).
#pragma once

#include "core/step_state.h"
#include "optim/flat_buffers.h"

namespace tandem::optim {

using EmaOptions = AverageRule;

class Ema {
 public:
  // `statistics`: live statistics as one flat f32 tensor, or absent. Throws UserError unless 0 <= decay < 1.
  Ema(const FlatBuffers& buffers, const Tensor& statistics, const EmaOptions& options);
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  // Follows what the step in `state` (a StepState in device memory) left.
  void update(const Tensor& state);

  // Laid out as the masters and as the live statistics.
  const Tensor& average() const { return average_; }
  const Tensor& average_statistics() const { return average_statistics_; }
  // Whether the model holds the averages now.
  bool swapped_in() const { return swapped_in_; }

  // The model's weights and statistics are the averages within the scope and exactly what they were after it.
  // Throws UserError inside another scope of the same Ema.
  class Scope {
   public:
    explicit Scope(Ema& ema);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ema& ema_;
    Tensor masters_, statistics_;  // what is put back
  };

 private:
  EmaOptions options_;
  Tensor masters_, statistics_;
  Tensor average_, average_statistics_;
  bool swapped_in_ = false;
};

}  // namespace tandem::optim
