// Arithmetic of a training step in f64, for host and device: the apply or skip decision, and EMA decay.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/kernels/math.h"
#include "core/step_state.h"

namespace tandem::kernels {

// The factor that unscales a gradient: 1 / (scale · divisor).
TANDEM_HD double unscale_factor(const ScaleState& scale, double divisor, bool unscaled) {
  return 1.0 / ((unscaled ? 1.0 : static_cast<double>(scale.value)) * divisor);
}

// The factor of a range whose gradient has an additional scale 2^log2. Exact; unchanged if log2 is 0.
template <class T>
TANDEM_HD T factor_of_range(T factor, std::int8_t log2) {
  return std::ldexp(factor, -static_cast<int>(log2));
}

// Decides the step from the results of check_gradients and updates the loss-scale statistics. `table` as in
// UpdateKernels::decide_step, with `entries` learning rates.
TANDEM_HD void decide_step(const StepRules& rules, const double* table, std::int64_t entries,
                           StepState& state, ScaleState& scale) {
  const bool finite = state.non_finite == 0;
  state.skip = rules.checked && rules.skip_non_finite && !finite;
  state.gradient_norm = rules.checked && finite ? std::sqrt(state.sum_of_squares) : std::nan("");
  const double clip = rules.clip_norm / (state.gradient_norm + 1e-6);
  state.clip_factor = clip < 1.0 ? static_cast<float>(clip) : 1.0f;  // 1 if the norm is NaN
  state.used_scale = scale.value;
  state.gradient_factor =
      static_cast<float>((clip < 1.0 ? clip : 1.0) * unscale_factor(scale, rules.divisor, rules.unscaled));
  std::int64_t entry = state.applied - static_cast<std::int64_t>(table[0]);
  entry = entry < 0 ? 0 : entry >= entries ? entries - 1 : entry;
  state.learning_rate = table[1 + entry];

  if (!rules.attributed && !finite) ++scale.found_inf;
  if (state.amax > scale.amax) scale.amax = state.amax;
  ++state.attempted;
  if (state.skip) {
    ++state.skipped;
    ++state.consecutive_skips;
  } else {
    ++state.applied;
    state.consecutive_skips = 0;
  }
  state.loss = state.loss_sum / rules.loss_weight;
  state.loss_sum = state.sum_of_squares = state.amax = 0.0;
  state.non_finite = state.forward_non_finite = 0;
}

// EMA decay of the step that was just applied.
TANDEM_HD double average_decay(const AverageRule& rule, const StepState& state) {
  const double t = static_cast<double>(state.applied);
  const double early = (1.0 + t) / (10.0 + t);
  return rule.warm_up && early < rule.decay ? early : rule.decay;
}

}  // namespace tandem::kernels
