// Loss-scale update at the end of a step, for host and device.
#pragma once

#include <cmath>

#include "core/kernels/math.h"
#include "core/loss_scale.h"

namespace tandem::kernels {

TANDEM_HD float limited_scale(const ScaleRules& rules, double scale) {
  const double low = static_cast<double>(rules.floor), high = static_cast<double>(rules.ceiling);
  return static_cast<float>(scale < low ? low : scale > high ? high : scale);
}

TANDEM_HD float scale_after_overflow(const ScaleRules& rules, ScaleState& state) {
  state.clean = 0;
  ++state.overflows;
  if (static_cast<double>(state.overflows) < rules.tolerance * static_cast<double>(state.since_change))
    return state.value;
  if (state.hysteresis_left > 1) {
    --state.hysteresis_left;
    return state.value;
  }
  if (rules.refill == Refill::clean_and_backoff) state.hysteresis_left = rules.hysteresis;
  state.overflows = state.since_change = 0;
  const float lower = state.value * rules.backoff;
  if (lower >= rules.floor) return lower;
  if (rules.floor_action != FloorAction::raise) return rules.floor < state.value ? rules.floor : state.value;
  state.exhausted = rules.backoff < 1.0f;
  return state.value;
}

TANDEM_HD float scale_after_clean_step(const ScaleRules& rules, ScaleState& state) {
  if (rules.refill != Refill::growth) state.hysteresis_left = rules.hysteresis;
  state.exhausted = 0;
  ++state.clean;
  switch (rules.counter) {
    case CleanCount::consecutive:
      if (state.clean < rules.interval) return state.value;
      state.clean = 0;
      break;
    case CleanCount::modulo:
      if (state.clean % rules.interval != 0) return state.value;
      break;
    case CleanCount::modulo_plus_one:
      if (state.clean == 1 || (state.clean - 1) % rules.interval != 0) return state.value;
      break;
  }
  if (rules.refill == Refill::growth) state.hysteresis_left = rules.hysteresis;
  state.since_change = 0;
  const float higher = state.value * rules.growth;
  if (!std::isfinite(higher)) return state.value;
  if (higher <= rules.ceiling) return higher;
  return state.value > rules.ceiling ? state.value : rules.ceiling;
}

// NVCaffe: scales the largest gradient of the last step to `target`.
TANDEM_HD float scale_from_amax(const ScaleRules& rules, const ScaleState& state) {
  return state.amax > 0.0 ? limited_scale(rules, static_cast<double>(rules.target) / state.amax)
                          : state.value;
}

// OpenSeq2Seq's LogMax: models the log of the largest gradient as normal and chooses the scale so that the
// next one exceeds 2^16 with a probability of 0.1 % (3.09 standard deviations). An overflow counts as 2^16.
TANDEM_HD float scale_from_logmax(const ScaleRules& rules, bool overflow, ScaleState& state) {
  constexpr double kGreatest = 16.0, kDeviations = 3.09, kFast = 0.99, kSlow = 0.999;
  if (!overflow && !(state.amax > 0.0)) return state.value;
  const double x = overflow ? kGreatest : std::log2(state.amax);
  ++state.estimates;
  state.mean = kFast * state.mean + (1.0 - kFast) * x;
  state.slow_mean = kSlow * state.slow_mean + (1.0 - kSlow) * x;
  state.square = kSlow * state.square + (1.0 - kSlow) * x * x;
  const double n = static_cast<double>(state.estimates);
  const double fast = 1.0 - std::pow(kFast, n), slow = 1.0 - std::pow(kSlow, n);
  const double slow_mean = state.slow_mean / slow;
  const double variance = state.square / slow - slow_mean * slow_mean;
  const double deviation = variance > 0.0 ? std::sqrt(variance) : 0.0;
  return limited_scale(rules, std::exp2(kGreatest - (state.mean / fast + kDeviations * deviation)));
}

// Computes the scale of the next backward pass from the statistics since the last update.
TANDEM_HD void update_scale(const ScaleRules& rules, ScaleState& state) {
  const bool overflow = state.found_inf != 0 && !(rules.spare_forward && state.forward_non_finite != 0);
  const bool spared = state.found_inf != 0 && !overflow;
  if (rules.delayed) state.value = state.staged;
  if (!spared) {
    ++state.since_change;
    float next = state.value;
    switch (rules.estimator) {
      case ScaleEstimator::none:
        next = overflow ? scale_after_overflow(rules, state) : scale_after_clean_step(rules, state);
        break;
      case ScaleEstimator::amax:
        next = scale_from_amax(rules, state);
        break;
      case ScaleEstimator::logmax:
        next = scale_from_logmax(rules, overflow, state);
        break;
    }
    state.staged = next;
    if (!rules.delayed) state.value = next;
  }
  state.found_inf = state.forward_non_finite = 0;
  state.amax = 0.0;
}

}  // namespace tandem::kernels
