// The loss scale as plain data for host and device: one state machine whose fields make up every dynamic loss
// scaler in use. core/kernels/loss_scale.h has its transition; optim/scaler.h has the rules of other
// frameworks as presets.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace tandem {

// Which clean step (one without overflow, counted from the last overflow) makes the scale grow.
enum class CleanCount : std::uint8_t {
  consecutive,      // the interval-th; counting starts anew after a growth
  modulo,           // every interval-th; counting goes on
  modulo_plus_one,  // the one after every interval-th
};

// When the allowance of overflows that lower nothing (hysteresis) is filled up again.
enum class Refill : std::uint8_t {
  clean,              // by any clean step
  growth,             // only when the scale grows
  clean_and_backoff,  // by a clean step, and when the scale was lowered
};

// What becomes of an overflow when the scale cannot be lowered further.
enum class FloorAction : std::uint8_t {
  clamp,     // the scale stays at the floor
  raise,     // the scale stays and the state says `exhausted`: the driver stops
  sanitize,  // gradients are repaired instead: infinities clipped always, NaN to 0 at the floor
};

// Scales that follow the gradients instead of their overflows.
enum class ScaleEstimator : std::uint8_t {
  none,
  amax,    // target / the greatest gradient of the last step
  logmax,  // from mean and deviation of the logarithm of the greatest gradient
};

struct ScaleRules {
  float growth = 1.0f, backoff = 1.0f;
  std::int64_t interval = 2000;
  CleanCount counter = CleanCount::consecutive;
  std::int32_t hysteresis = 1;  // the n-th overflow lowers the scale
  Refill refill = Refill::clean;
  float floor = 1.0f;
  float ceiling = 16777216.0f;
  FloorAction floor_action = FloorAction::clamp;
  bool delayed = false;  // a new scale takes effect one step later than it could
  double tolerance =
      0.0;  // overflows that are a smaller share of the steps since the last change lower nothing
  ScaleEstimator estimator = ScaleEstimator::none;
  float target = 4.0f;        // of the estimator amax
  bool spare_forward = true;  // a loss that is not finite is the model's doing: the scale stays
};

// Lives in a u8 tensor of sizeof(ScaleState) bytes.
struct ScaleState {
  float value = 1.0f;   // of the next backward
  float staged = 1.0f;  // the one after it, when delayed; else equal to value
  std::int64_t clean = 0;
  std::int32_t hysteresis_left = 1;
  std::int32_t exhausted = 0;     // the last step overflowed at the floor, with FloorAction::raise
  std::int64_t since_change = 0;  // steps, this one included
  std::int64_t overflows = 0;     // since the scale was lowered
  double mean = 0.0, slow_mean = 0.0, square = 0.0;  // sums of logmax, not yet corrected for their start
  std::int64_t estimates = 0;
  // Gathered during a step, cleared by the transition.
  std::int32_t found_inf = 0;  // overflows: a sum over optimizers and ranks, any value above 0 counts
  std::int32_t forward_non_finite = 0;  // a loss was not finite
  double amax = 0.0;                    // greatest finite magnitude of an unscaled gradient
};
static_assert(std::is_trivially_copyable_v<ScaleState>);

}  // namespace tandem
