// State of a training step in device memory, and the data of an update. Plain data, shared by host and device
// code.
//
// Order of a step on the device: accumulate_loss, check_gradients → decide_step → update_scale, update →
// commit_or_restore, update_average. The host reads the state one step late; nothing in a step waits for it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/loss_scale.h"
#include "core/tensor.h"

namespace tandem {

// Stored in a u8 tensor of sizeof(StepState) bytes.
struct StepState {
  // Counters. attempted = applied + skipped.
  std::int64_t attempted = 0;
  std::int64_t applied = 0;
  std::int64_t skipped = 0;
  std::int64_t consecutive_skips = 0;
  // Accumulated by accumulate_loss and check_gradients, cleared by decide_step.
  double loss_sum = 0.0;                // of losses times weights
  double sum_of_squares = 0.0;          // of the unscaled gradients, over all ranks
  double amax = 0.0;                    // largest finite magnitude of an unscaled gradient, if requested
  std::int32_t non_finite = 0;          // number of non-finite values, saturating
  std::int32_t forward_non_finite = 0;  // non-finite losses: this step's part of the scale's count
  // Written by decide_step.
  std::int32_t skip = 0;         // this step is skipped
  float used_scale = 1.0f;       // the scale of this step
  float gradient_factor = 1.0f;  // clip factor / (scale · divisor): rules use gradient · gradient_factor
  float clip_factor = 1.0f;
  double learning_rate = 0.0;  // of this step, before group factors
  double loss = 0.0;           // mean over the step's samples; several losses are summed
  // Before clipping, of the unscaled gradients; NaN when not finite or not checked.
  double gradient_norm = 0.0;
};
static_assert(std::is_trivially_copyable_v<StepState>);

// Parameters of decide_step.
struct StepRules {
  bool skip_non_finite = true;  // a non-finite gradient skips the step
  bool checked = true;          // check_gradients ran; otherwise no skipping and no norm clipping
  double divisor = 1.0;  // the gradients are a sum of this many means (micro-batches × ranks, weighted)
  // Sum of accumulate_loss's weights (of one loss if there are several).
  double loss_weight = 1.0;
  double clip_norm = std::numeric_limits<double>::infinity();
  bool unscaled = false;    // the gradients carry no scale any more
  bool attributed = false;  // `unscale` has already reported overflows to the scales
};

// Normalisation of a gradient g in check_gradients: g / (scale · divisor), or g / divisor once unscaled; also
// divided by its range's own scale (UpdateRange::gradient_log2).
struct GradientCheck {
  double divisor = 1.0;
  bool unscaled = false;
  bool magnitude = false;  // also compute the largest magnitude
};

struct UnscaleOptions {
  double divisor = 1.0;
  bool add = false;        // to the target, instead of overwriting it
  bool attribute = false;  // non-finite values count as an overflow of this scale
};

// A contiguous range of the flat buffers of one parameter.
struct UpdateRange {
  Index first = 0, count = 0;  // elements
  Index slot = 0;              // index in UpdateBuffers::counts
  float lr_factor = 1.0f;      // of the parameter's group
  float weight_decay = 0.0f;
  bool adapt = true;  // whether the trust ratio of a rule applies
  // Scale of the gradient relative to the step's loss scale: 2^gradient_log2, -126 to 126. Unscaling divides
  // by both.
  std::int8_t gradient_log2 = 0;
  // For a table [V,E]: E, and in device memory one byte per row, 0 if the row's gradient is 0 and the row is
  // not updated. Without marks every element is visited; the norm has the same bits either way.
  Index row = 0;
  const std::uint8_t* marks = nullptr;
};

// Rounding of stored updates: none (f32), or to the grid of a 16-bit type as if the buffer had it. Stochastic
// rounding, for weights, uses word i%4 of Philox block i/4 of (seed, attempted step) for element i.
struct StorageRounding {
  DType weights = DType::f32;
  DType moments = DType::f32;
  bool stochastic = false;
  std::uint64_t seed = 0;
};

// Flat f32 buffers of equal length; unused moments are absent. The rules define the moments
// (core/kernels/update_rules.h).
struct UpdateBuffers {
  Tensor master{}, gradient{};
  Tensor working{};  // 16-bit copy of the master, written in the same pass, or absent
  Tensor moment1{}, moment2{}, moment3{};
  Tensor counts{};  // i64, number of updates of each parameter, for bias corrections
  StorageRounding rounding{};
};

// An exponential moving average. With warm-up the decay of applied step t (from 1) is at most (1+t)/(10+t).
struct AverageRule {
  double decay = 0.999;
  bool warm_up = true;
};

}  // namespace tandem
