// Update kernels: gradient check, optimizer update and loss scale on flat f32 buffers, with one StepState and
// one ScaleState in device memory (core/step_state.h).
#pragma once

#include <span>

#include "core/error.h"
#include "core/step_state.h"

namespace tandem {

class UpdateRule;  // core/kernels/update_rules.h

struct UpdateKernels {
  virtual ~UpdateKernels() = default;

  // Adds this loss (one f32 or f64 element), times `weight`, to the state, and counts a non-finite loss in
  // the scale.
  virtual void accumulate_loss(const Tensor& loss, double weight, const Tensor& state,
                               const Tensor& scale) = 0;
  // Adds to the state the sum of squares (f64) of the unscaled gradient over all ranges, and the number of
  // non-finite elements. The gradient is f32 (or f64, for loops without flat buffers). `scale` may be absent
  // if the gradient is unscaled.
  virtual void check_gradients(const Tensor& gradient, std::span<const UpdateRange> ranges,
                               const GradientCheck& check, const Tensor& state, const Tensor& scale) = 0;
  // target ← gradient / (scale · divisor · 2^gradient_log2 of the range), f32, over all ranges; counts
  // elements that are not finite before or after in the state. target may be gradient.
  virtual void unscale(const Tensor& gradient, std::span<const UpdateRange> ranges,
                       const UnscaleOptions& options, const Tensor& target, const Tensor& state,
                       const Tensor& scale) = 0;
  // FloorAction::sanitize: infinities become ±65504, and NaN becomes 0 when the scale is at `floor`.
  virtual void sanitize(const Tensor& gradient, std::span<const UpdateRange> ranges, float floor,
                        const Tensor& scale) = 0;
  // Sets skip, learning rate, clip factor and counters of this step, and reports overflows to the scale.
  // lr_table is f64 [1+n]: the number of applied steps of its first entry, then learning rates; the last one
  // holds beyond the end.
  virtual void decide_step(const StepRules& rules, const Tensor& lr_table, const Tensor& state,
                           const Tensor& scale) = 0;
  // The transition of the scale (core/kernels/loss_scale.h).
  virtual void update_scale(const ScaleRules& rules, const Tensor& scale) = 0;
  // One pass over masters, gradients and moments (LARS and LAMB: two); without effect if the step is skipped.
  // Gaps between ranges and unmarked rows are not touched. The result does not depend on the number of
  // threads.
  virtual void update(const UpdateRule& rule, std::span<const UpdateRange> ranges,
                      const UpdateBuffers& buffers, const Tensor& state) = 0;
  // Both f32: source → target if the step was applied, target → source if skipped or source is not finite.
  virtual void commit_or_restore(const Tensor& source, const Tensor& target, const Tensor& state) = 0;
  // average ← decay·average + (1-decay)·value (both f32) if the step was applied.
  virtual void update_average(const Tensor& value, const Tensor& average, const AverageRule& rule,
                              const Tensor& state) = 0;
  // In place: rounds every f32 element to the nearest value of a 16-bit type.
  virtual void round_to(const Tensor& x, DType dtype) = 0;
  // In place: x ← x·factor with every element limited to [-limit, limit]; NaN stays. f32 or f64.
  virtual void scale_and_limit(const Tensor& x, double factor, double limit) = 0;
};

// The memory of the buffers of an update; null if absent.
struct UpdatePointers {
  const float* gradient;
  float *master, *moment1, *moment2, *moment3;
  void* working;  // 16-bit
  DType working_dtype;
  StorageRounding rounding;
};

inline UpdatePointers pointers_of(const UpdateBuffers& buffers) {
  const Index length = buffers.master.numel();
  const auto memory = [&](const Tensor& tensor) -> float* {
    if (!tensor.defined()) return nullptr;
    ensure(tensor.numel() == length, "update", "buffer {} differs in size from the {} master weights",
           to_string(tensor), length);
    return tensor.data<float>();
  };
  const Tensor& working = buffers.working;
  ensure(!working.defined() || (is_16bit(working.dtype()) && working.numel() == length), "update",
         "{} is not a 16-bit copy of {} master weights", to_string(working), length);
  return {.gradient = memory(buffers.gradient),
          .master = memory(buffers.master),
          .moment1 = memory(buffers.moment1),
          .moment2 = memory(buffers.moment2),
          .moment3 = memory(buffers.moment3),
          .working = working.defined() ? working.raw() : nullptr,
          .working_dtype = working.defined() ? working.dtype() : DType::f32,
          .rounding = buffers.rounding};
}

}  // namespace tandem
