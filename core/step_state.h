// What a training step keeps in device memory, and what an update works on. Plain data, shared by host and
// device code.
//
// The order of a step on the device: accumulate_loss, check_gradients → decide_step → update_scale, update →
// commit_or_restore, update_average. The host reads the state one step late; nothing in a step waits for it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/loss_scale.h"
#include "core/tensor.h"

namespace tandem {

// Lives in a u8 tensor of sizeof(StepState) bytes.
struct StepState {
  // Counters. attempted = applied + skipped.
  std::int64_t attempted = 0;
  std::int64_t applied = 0;
  std::int64_t skipped = 0;
  std::int64_t consecutive_skips = 0;
  // Gathered by accumulate_loss and check_gradients, cleared by decide_step.
  double loss_sum = 0.0;        // of the losses, each times its weight
  double sum_of_squares = 0.0;  // of the unscaled gradients, over all ranks
  double amax = 0.0;            // greatest finite magnitude of an unscaled gradient, where it was asked for
  std::int32_t non_finite = 0;  // count of non-finite values seen, saturating
  std::int32_t forward_non_finite = 0;  // losses that were not finite: this step's part of the scale's count
  // Written by decide_step.
  std::int32_t skip = 0;         // this step is skipped
  float used_scale = 1.0f;       // the scale of this step
  float gradient_factor = 1.0f;  // clip factor / (scale · divisor): a rule sees gradient · gradient_factor
  float clip_factor = 1.0f;
  double learning_rate = 0.0;  // of this step, before group factors
  double loss = 0.0;           // mean over the step's samples; of several losses their sum
  // Before clipping, of the unscaled gradients; NaN when not finite or not checked.
  double gradient_norm = 0.0;
};
static_assert(std::is_trivially_copyable_v<StepState>);

// What `decide_step` does with what was gathered.
struct StepRules {
  bool skip_non_finite = true;  // a non-finite gradient skips the step
  bool checked = true;          // check_gradients ran; without it nothing is skipped or clipped by norm
  double divisor = 1.0;         // the gradients are a sum of so many means (micro-batches × ranks, weighted)
  // Sum of the weights that accumulate_loss was given (of one loss where there are several).
  double loss_weight = 1.0;
  double clip_norm = std::numeric_limits<double>::infinity();
  bool unscaled = false;    // the gradients carry no scale any more
  bool attributed = false;  // `unscale` has told the scales what was found already
};

// How check_gradients sees a gradient g: as g / (scale · divisor), or g / divisor once it is unscaled; in
// either case divided by what its range carries besides (UpdateRange::gradient_log2).
struct GradientCheck {
  double divisor = 1.0;
  bool unscaled = false;
  bool magnitude = false;  // gather the greatest magnitude too
};

struct UnscaleOptions {
  double divisor = 1.0;
  bool add = false;        // to the target, instead of writing it
  bool attribute = false;  // a non-finite value counts as an overflow of this scale
};

// A contiguous range of the flat buffers that belongs to one parameter.
struct UpdateRange {
  Index first = 0, count = 0;  // elements
  Index slot = 0;              // the parameter's position in UpdateBuffers::counts
  float lr_factor = 1.0f;      // of the parameter's group
  float weight_decay = 0.0f;
  bool adapt = true;  // rules with a trust ratio: whether it applies
  // What the gradient carries beside the loss scale of the step: 2^gradient_log2, -126 to 126. Who divides by
  // the one divides by the other.
  std::int8_t gradient_log2 = 0;
  // Of a table [V,E]: E, and in device memory a byte for each row, 0 where the gradient of the whole row is 0
  // and the row is not to be updated. Without marks every element is visited; the norm has the same bits with
  // them and without.
  Index row = 0;
  const std::uint8_t* marks = nullptr;
};

// How what an update stores is rounded: to f32 (not at all), or to the grid of a 16-bit type, as if the
// buffer had it. Stochastic rounding of element i draws word i%4 of Philox block i/4 of (seed, attempted
// step); it applies to the weights.
struct StorageRounding {
  DType weights = DType::f32;
  DType moments = DType::f32;
  bool stochastic = false;
  std::uint64_t seed = 0;
};

// Flat f32 buffers of equal length; moments that the rule does not use are absent. What they mean is said at
// the rules (core/kernels/update.h).
struct UpdateBuffers {
  Tensor master{}, gradient{};
  Tensor working{};  // 16-bit copy of the master written in the same pass, or absent
  Tensor moment1{}, moment2{}, moment3{};
  Tensor counts{};  // i64, one per parameter: how many updates it has had, for bias corrections
  StorageRounding rounding{};
};

// An exponential moving average. With warm-up the decay of applied step t (from 1) is at most (1+t)/(10+t).
struct AverageRule {
  double decay = 0.999;
  bool warm_up = true;
};

}  // namespace tandem
