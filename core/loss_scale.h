// Loss scale as plain data for host and device: one state machine whose fields cover every common dynamic
// loss scaler. Its transition is in core/kernels/loss_scale.h; presets of other frameworks are in
// optim/scaler.h.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tandem {

// Clean steps (without overflow, counted from the last overflow) at which the scale grows.
enum class CleanCount : std::uint8_t {
  consecutive,      // the interval-th; the count restarts after a growth
  modulo,           // every interval-th; the count continues
  modulo_plus_one,  // the one after every interval-th
};

// Event that refills the hysteresis (the number of tolerated overflows).
enum class Refill : std::uint8_t {
  clean,              // by any clean step
  growth,             // by a clean step, and by a backoff
  clean_and_backoff,  // by a clean step, and when the scale was lowered
};

// Reaction to an overflow when the scale cannot be lowered further.
enum class FloorAction : std::uint8_t {
  clamp,     // the scale stays at the floor
  raise,     // the scale stays and the state is `exhausted`: the driver stops
  sanitize,  // repairs gradients: clips infinities always, NaN to 0 at the floor
};

// Scales computed from gradients instead of overflows.
enum class ScaleEstimator : std::uint8_t {
  none,
  amax,    // target / the largest gradient of the last step
  logmax,  // from mean and deviation of log2 of the largest gradient
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
  bool delayed = false;    // a new scale takes effect one step late
  double tolerance = 0.0;  // tolerated share of overflows in the steps since the last change
  ScaleEstimator estimator = ScaleEstimator::none;
  float target = 4.0f;        // for the estimator amax
  bool spare_forward = true;  // a non-finite loss leaves the scale unchanged
};

// Stored in a u8 tensor of sizeof(ScaleState) bytes.
struct ScaleState {
  float value = 1.0f;   // of the next backward
  float staged = 1.0f;  // the following one if delayed; else equal to value
  std::int64_t clean = 0;
  std::int32_t hysteresis_left = 1;
  std::int32_t exhausted = 0;     // the last step overflowed at the floor, with FloorAction::raise
  std::int64_t since_change = 0;  // steps, including this one
  std::int64_t overflows = 0;     // since the scale was lowered
  double mean = 0.0, slow_mean = 0.0, square = 0.0;  // sums of logmax, without bias correction
  std::int64_t estimates = 0;
  // Accumulated during a step, cleared by the transition.
  std::int32_t found_inf = 0;  // overflows, summed over optimizers and ranks; any value above 0 counts
  std::int32_t forward_non_finite = 0;  // a loss was not finite
  double amax = 0.0;                    // largest finite magnitude of an unscaled gradient
};
static_assert(std::is_trivially_copyable_v<ScaleState>);

}  // namespace tandem
