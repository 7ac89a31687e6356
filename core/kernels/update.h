// The arithmetic of a training step for host and device: the decision, the constants of a rule for one
// parameter, and the update of one element.
//
// All of it is f32 except the decision and the constants, which are f64 and rounded once. A rule sees the
// unscaled, clipped gradient; it never sees a scale. References stand beside the rules in optim/.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/kernels/math.h"
#include "core/step_state.h"

namespace tandem::kernels {

// The factor that makes a gradient unscaled: 1 / (scale · divisor).
TANDEM_HD double unscale_factor(const ScaleState& scale, double divisor, bool unscaled) {
  return 1.0 / ((unscaled ? 1.0 : static_cast<double>(scale.value)) * divisor);
}

// What a step does with what check_gradients gathered, and what the scale is told of it. `table` as in
// Backend::decide_step, with `entries` learning rates.
TANDEM_HD void decide_step(const StepRules& rules, const double* table, std::int64_t entries,
                           StepState& state, ScaleState& scale) {
  const bool finite = state.non_finite == 0;
  state.skip = rules.checked && rules.skip_non_finite && !finite;
  state.gradient_norm = rules.checked && finite ? std::sqrt(state.sum_of_squares) : std::nan("");
  const double clip = rules.clip_norm / (state.gradient_norm + 1e-6);
  state.clip_factor = clip < 1.0 ? static_cast<float>(clip) : 1.0f;  // 1 when the norm is NaN
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

// The decay of an average at the step that was just applied.
TANDEM_HD double average_decay(const AverageRule& rule, const StepState& state) {
  const double t = static_cast<double>(state.applied);
  const double early = (1.0 + t) / (10.0 + t);
  return rule.warm_up && early < rule.decay ? early : rule.decay;
}

struct UpdateConstants {
  float gradient_factor = 1.0f, clip_value = 0.0f;
  float lr = 0.0f;  // with the group's factor, and the trust ratio where there is one
  float weight_decay = 0.0f;
  float shrink = 1.0f;                  // 1 - lr·weight_decay: decoupled decay
  float momentum = 0.0f, fresh = 1.0f;  // momentum ← momentum·old + fresh·gradient
  float one_minus_beta1 = 0.0f, beta2 = 0.0f, one_minus_beta2 = 0.0f;  // from f64
  float step_size = 0.0f;                                              // lr / (1 - beta1^t)
  float correction1 = 1.0f, root_correction2 = 1.0f;                   // 1/(1 - beta1^t), 1/√(1 - beta2^t)
  float eps = 0.0f;
};

// `updates`: how many the parameter has had before this one.
TANDEM_HD UpdateConstants constants_of(const UpdateRule& rule, const UpdateRange& range, std::int64_t updates,
                                       const StepState& state) {
  UpdateConstants c;
  const double t = static_cast<double>(updates + 1);
  double lr = state.learning_rate * static_cast<double>(range.lr_factor);
  if (rule.kind == UpdateKind::adagrad) lr /= 1.0 + (t - 1.0) * rule.lr_decay;
  c.gradient_factor = state.gradient_factor;
  c.clip_value = static_cast<float>(rule.clip_value);
  c.lr = static_cast<float>(lr);
  c.weight_decay = range.weight_decay;
  c.shrink = static_cast<float>(1.0 - lr * static_cast<double>(range.weight_decay));
  c.momentum = static_cast<float>(rule.momentum);
  c.fresh = updates == 0 ? 1.0f : static_cast<float>(1.0 - rule.dampening);
  c.eps = static_cast<float>(rule.eps);
  if (rule.kind == UpdateKind::rmsprop) {
    c.beta2 = static_cast<float>(rule.alpha);
    c.one_minus_beta2 = static_cast<float>(1.0 - rule.alpha);
  } else {
    c.one_minus_beta1 = static_cast<float>(1.0 - rule.beta1);
    c.beta2 = static_cast<float>(rule.beta2);
    c.one_minus_beta2 = static_cast<float>(1.0 - rule.beta2);
    const double correction1 = 1.0 / (1.0 - std::pow(rule.beta1, t));
    c.correction1 = static_cast<float>(correction1);
    c.step_size = static_cast<float>(lr * correction1);
    c.root_correction2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(rule.beta2, t)));
  }
  return c;
}

// The gradient a rule sees. NaN stays NaN.
TANDEM_HD float unscaled(const UpdateConstants& c, float gradient) {
  const float g = gradient * c.gradient_factor;
  const float low = g < -c.clip_value ? -c.clip_value : g;
  return low > c.clip_value ? c.clip_value : low;
}

// ---- One element: `w` is the master, a, b, c the moments in the order of UpdateBuffers; kMoments says which
// are used, a bit each.

enum class MomentumForm : std::uint8_t { none, classical, nesterov };

template <MomentumForm kForm>
struct SgdElement {
  static constexpr unsigned kMoments = kForm == MomentumForm::none ? 0u : 1u;
  TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float&, float&) {
    const float g = unscaled(k, gradient) + k.weight_decay * w;
    if constexpr (kForm == MomentumForm::none) {
      w -= k.lr * g;
    } else {
      a = k.momentum * a + k.fresh * g;
      w -= k.lr * (kForm == MomentumForm::nesterov ? g + k.momentum * a : a);
    }
  }
};

template <bool kDecoupled, bool kAmsgrad>
struct AdamElement {
  static constexpr unsigned kMoments = kAmsgrad ? 7u : 3u;
  TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float& b,
                             float& c) {
    float g = unscaled(k, gradient);
    if constexpr (kDecoupled) {
      w *= k.shrink;
    } else {
      g += k.weight_decay * w;
    }
    a += k.one_minus_beta1 * (g - a);
    b = k.beta2 * b + k.one_minus_beta2 * (g * g);
    float square = b;
    if constexpr (kAmsgrad) {
      c = c > b ? c : b;
      square = c;
    }
    w -= k.step_size * a / (std::sqrt(square) * k.root_correction2 + k.eps);
  }
};

template <bool kCentered, bool kMomentum>
struct RmspropElement {
  static constexpr unsigned kMoments = 1u | (kCentered ? 2u : 0u) | (kMomentum ? 4u : 0u);
  TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float& b,
                             float& c) {
    const float g = unscaled(k, gradient) + k.weight_decay * w;
    a = k.beta2 * a + k.one_minus_beta2 * (g * g);
    float variance = a;
    if constexpr (kCentered) {
      b += k.one_minus_beta2 * (g - b);
      variance = a - b * b;
      variance = variance < 0.0f ? 0.0f : variance;  // rounding may leave it just below zero
    }
    const float direction = g / (std::sqrt(variance) + k.eps);
    if constexpr (kMomentum) {
      c = k.momentum * c + direction;
      w -= k.lr * c;
    } else {
      w -= k.lr * direction;
    }
  }
};

struct AdagradElement {
  static constexpr unsigned kMoments = 1u;
  TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float&, float&) {
    const float g = unscaled(k, gradient) + k.weight_decay * w;
    a += g * g;
    w -= k.lr * g / (std::sqrt(a) + k.eps);
  }
};

// lr contains the trust ratio.
struct LarsElement {
  static constexpr unsigned kMoments = 1u;
  TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float&, float&) {
    a = k.momentum * a + k.lr * (unscaled(k, gradient) + k.weight_decay * w);
    w -= a;
  }
};

// LAMB in two passes: the moments and the direction whose norm gives the trust ratio, then the step along it.
struct LambElement {
  static constexpr unsigned kMoments = 3u;
  TANDEM_HD static float direction(const UpdateConstants& k, float w, float a, float b) {
    return a * k.correction1 / (std::sqrt(b) * k.root_correction2 + k.eps) + k.weight_decay * w;
  }
  TANDEM_HD static void moments(const UpdateConstants& k, float gradient, float& a, float& b) {
    const float g = unscaled(k, gradient);
    a += k.one_minus_beta1 * (g - a);
    b = k.beta2 * b + k.one_minus_beta2 * (g * g);
  }
  TANDEM_HD static void step(const UpdateConstants& k, float, float& w, float& a, float& b, float&) {
    w -= k.lr * direction(k, w, a, b);
  }
};

// The factor on the learning rate of one parameter from two squared norms: of the parameter, and of its
// gradient (LARS) or direction (LAMB). 1 where either norm is zero.
TANDEM_HD double trust_ratio(const UpdateRule& rule, const UpdateRange& range, double weight_squares,
                             double squares) {
  if (!range.adapt || !(weight_squares > 0.0) || !(squares > 0.0)) return 1.0;
  const double weight = std::sqrt(weight_squares), other = std::sqrt(squares);
  if (rule.kind == UpdateKind::lamb) return weight / other;
  return rule.trust_coefficient * weight /
         (other + static_cast<double>(range.weight_decay) * weight + rule.eps);
}

}  // namespace tandem::kernels
