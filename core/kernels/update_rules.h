// Optimizer update rules for host and device: options, constants for one parameter, and the formula for one
// element.
//
// A rule is a struct of its options (f64, plain data; optim/ has the defaults and references) with
//   prepare(k, u)            sets its constants for one parameter: computed in f64, rounded once
//   with_element(visit)      calls visit(TypeTag<E>{}) with the element formula for its options (host)
//   trust_ratio(u, w, x)     if E::kAdapts: the factor on the learning rate, from two norms
//   zero_grad_is_noop()      optional: whether an element with a zero gradient and no weight decay keeps its
//                            value and moments, bit for bit, in every step
// An element formula E has
//   kMoments                 number of moments, the first ones of UpdateBuffers
//   step(k, g, w, a, b, c)   updates one element: master w, moments a, b, c
//   compared(k, g, w, a, b)  if E::kAdapts: the value whose norm a first pass compares with the parameter's.
//   If
//                            kComparedStores, it updates the moments, and `step` does not
// Element formulas are f32. A rule sees the unscaled, clipped gradient, never a scale. Backends compile every
// rule of the list `UpdateRules`.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/dtype.h"
#include "core/kernels/math.h"
#include "core/kernels/step.h"
#include "core/step_state.h"

namespace tandem::update_rules {

// Constants for one parameter in one step; each rule sets those that it uses.
struct UpdateConstants {
  float gradient_factor = 1.0f, clip_value = 0.0f;
  float lr = 0.0f;  // times the group's factor and the trust ratio, if any
  float weight_decay = 0.0f;
  float shrink = 1.0f;                  // 1 - lr·weight_decay: decoupled decay
  float momentum = 0.0f, fresh = 1.0f;  // momentum ← momentum·old + fresh·gradient
  float one_minus_beta1 = 0.0f, beta2 = 0.0f, one_minus_beta2 = 0.0f;  // from f64
  float step_size = 0.0f;                                              // lr / (1 - beta1^t)
  float correction1 = 1.0f, root_correction2 = 1.0f;                   // 1/(1 - beta1^t), 1/√(1 - beta2^t)
  float eps = 0.0f;
};

// Arguments of a rule for one parameter in one step.
struct ParameterUpdate {
  double lr = 0.0;  // times the group's factor
  double weight_decay = 0.0;
  double number = 1.0;  // number of this update of the parameter, from 1
};

// The unscaled, clipped gradient. NaN stays NaN.
TANDEM_HD float unscaled(const UpdateConstants& k, float gradient) {
  const float g = gradient * k.gradient_factor;
  const float low = g < -k.clip_value ? -k.clip_value : g;
  return low > k.clip_value ? k.clip_value : low;
}

// Default properties of an element formula.
template <int Moments>
struct Element {
  static constexpr int kMoments = Moments;
  static constexpr bool kAdapts = false, kComparedStores = false;
};

// ---- SGD

// Moment 1: momentum.
struct Sgd {
  double momentum = 0.0, dampening = 0.0;
  bool nesterov = false;

  enum class Form : std::uint8_t { plain, momentum, nesterov };

  template <Form kForm>
  struct Formula : Element<kForm == Form::plain ? 0 : 1> {
    TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float&, float&) {
      const float g = unscaled(k, gradient) + k.weight_decay * w;
      if constexpr (kForm == Form::plain) {
        w -= k.lr * g;
      } else {
        a = k.momentum * a + k.fresh * g;
        w -= k.lr * (kForm == Form::nesterov ? g + k.momentum * a : a);
      }
    }
  };

  TANDEM_HD void prepare(UpdateConstants& k, const ParameterUpdate& u) const {
    k.momentum = static_cast<float>(momentum);
    k.fresh = u.number == 1.0 ? 1.0f : static_cast<float>(1.0 - dampening);
  }
  bool zero_grad_is_noop() const { return momentum == 0.0; }
  template <class Visit>
  void with_element(Visit&& visit) const {
    if (momentum == 0.0) return visit(TypeTag<Formula<Form::plain>>{});
    if (nesterov) return visit(TypeTag<Formula<Form::nesterov>>{});
    visit(TypeTag<Formula<Form::momentum>>{});
  }
};

// ---- Adam, AdamW, LAMB

// Moments 1: mean of gradients, 2: mean of squares, both bias-corrected.
struct AdamMoments {
  double beta1 = 0.0, beta2 = 0.0, eps = 0.0;

  TANDEM_HD void prepare(UpdateConstants& k, const ParameterUpdate& u) const {
    const double correction1 = 1.0 / (1.0 - std::pow(beta1, u.number));
    k.one_minus_beta1 = static_cast<float>(1.0 - beta1);
    k.beta2 = static_cast<float>(beta2);
    k.one_minus_beta2 = static_cast<float>(1.0 - beta2);
    k.correction1 = static_cast<float>(correction1);
    k.step_size = static_cast<float>(u.lr * correction1);
    k.root_correction2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, u.number)));
    k.shrink = static_cast<float>(1.0 - u.lr * u.weight_decay);
    k.eps = static_cast<float>(eps);
  }
};

// Moment 3, with amsgrad: running maximum of 2.
template <bool kDecoupled>
struct AdamRule : AdamMoments {
  bool amsgrad = false;

  template <bool kAmsgrad>
  struct Formula : Element<kAmsgrad ? 3 : 2> {
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

  template <class Visit>
  void with_element(Visit&& visit) const {
    if (amsgrad) return visit(TypeTag<Formula<true>>{});
    visit(TypeTag<Formula<false>>{});
  }
};

struct Adam : AdamRule<false> {};
struct AdamW : AdamRule<true> {};

// ---- RMSprop

// Moments: mean of squares, then mean of gradients (centered), then momentum.
struct Rmsprop {
  double alpha = 0.0, eps = 0.0, momentum = 0.0;
  bool centered = false;

  template <bool kCentered, bool kMomentum>
  struct Formula : Element<1 + int{kCentered} + int{kMomentum}> {
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
        float& momentum = kCentered ? c : b;
        momentum = k.momentum * momentum + direction;
        w -= k.lr * momentum;
      } else {
        w -= k.lr * direction;
      }
    }
  };

  TANDEM_HD void prepare(UpdateConstants& k, const ParameterUpdate&) const {
    k.beta2 = static_cast<float>(alpha);
    k.one_minus_beta2 = static_cast<float>(1.0 - alpha);
    k.momentum = static_cast<float>(momentum);
    k.eps = static_cast<float>(eps);
  }
  template <class Visit>
  void with_element(Visit&& visit) const {
    centered ? with_momentum<true>(visit) : with_momentum<false>(visit);
  }

 private:
  template <bool kCentered, class Visit>
  void with_momentum(Visit&& visit) const {
    if (momentum != 0.0) return visit(TypeTag<Formula<kCentered, true>>{});
    visit(TypeTag<Formula<kCentered, false>>{});
  }
};

// ---- Adagrad

// Moment 1: sum of squares.
struct Adagrad {
  double lr_decay = 0.0, eps = 0.0;

  struct Formula : Element<1> {
    TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float&, float&) {
      const float g = unscaled(k, gradient) + k.weight_decay * w;
      a += g * g;
      w -= k.lr * g / (std::sqrt(a) + k.eps);
    }
  };

  TANDEM_HD void prepare(UpdateConstants& k, const ParameterUpdate& u) const {
    k.lr = static_cast<float>(u.lr / (1.0 + (u.number - 1.0) * lr_decay));
    k.eps = static_cast<float>(eps);
  }
  // With eps 0 and a sum of 0 the update is 0/0.
  bool zero_grad_is_noop() const { return static_cast<float>(eps) > 0.0f; }
  template <class Visit>
  void with_element(Visit&& visit) const {
    visit(TypeTag<Formula>{});
  }
};

// ---- LARS and LAMB: the learning rate depends on norms of the parameter

// Moment 1: momentum.
struct Lars {
  double momentum = 0.0, trust_coefficient = 0.0, eps = 0.0;

  struct Formula : Element<1> {
    static constexpr bool kAdapts = true;
    TANDEM_HD static float compared(const UpdateConstants& k, float gradient, float, float&, float&) {
      return unscaled(k, gradient);
    }
    TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float& a, float&, float&) {
      a = k.momentum * a + k.lr * (unscaled(k, gradient) + k.weight_decay * w);
      w -= a;
    }
  };

  TANDEM_HD void prepare(UpdateConstants& k, const ParameterUpdate&) const {
    k.momentum = static_cast<float>(momentum);
  }
  TANDEM_HD double trust_ratio(const ParameterUpdate& u, double weight, double gradient) const {
    return trust_coefficient * weight / (gradient + u.weight_decay * weight + eps);
  }
  template <class Visit>
  void with_element(Visit&& visit) const {
    visit(TypeTag<Formula>{});
  }
};

struct Lamb : AdamMoments {
  struct Formula : Element<2> {
    static constexpr bool kAdapts = true, kComparedStores = true;
    TANDEM_HD static float direction(const UpdateConstants& k, float w, float a, float b) {
      return a * k.correction1 / (std::sqrt(b) * k.root_correction2 + k.eps) + k.weight_decay * w;
    }
    TANDEM_HD static float compared(const UpdateConstants& k, float gradient, float w, float& a, float& b) {
      const float g = unscaled(k, gradient);
      a += k.one_minus_beta1 * (g - a);
      b = k.beta2 * b + k.one_minus_beta2 * (g * g);
      return direction(k, w, a, b);
    }
    TANDEM_HD static void step(const UpdateConstants& k, float, float& w, float& a, float& b, float&) {
      w -= k.lr * direction(k, w, a, b);
    }
  };

  TANDEM_HD double trust_ratio(const ParameterUpdate&, double weight, double direction) const {
    return weight / direction;
  }
  template <class Visit>
  void with_element(Visit&& visit) const {
    visit(TypeTag<Formula>{});
  }
};

// ---- Assign: values computed by an optimizer (optim/update_context.h)

// The weight becomes the gradient; with `unscales`, the unscaled, clipped one. No moments.
struct Assign {
  bool unscales = false;

  template <bool kUnscales>
  struct Formula : Element<0> {
    TANDEM_HD static void step(const UpdateConstants& k, float gradient, float& w, float&, float&, float&) {
      w = kUnscales ? unscaled(k, gradient) : gradient;
    }
  };

  TANDEM_HD void prepare(UpdateConstants&, const ParameterUpdate&) const {}
  template <class Visit>
  void with_element(Visit&& visit) const {
    if (unscales) return visit(TypeTag<Formula<true>>{});
    visit(TypeTag<Formula<false>>{});
  }
};

template <class... Rules>
struct RuleList {};

}  // namespace tandem::update_rules

namespace tandem {

using UpdateRules = update_rules::RuleList<update_rules::Sgd, update_rules::Adam, update_rules::AdamW,
                                           update_rules::Rmsprop, update_rules::Adagrad, update_rules::Lars,
                                           update_rules::Lamb, update_rules::Assign>;

// One of UpdateRules, as plain data that kernels take by value.
class UpdateRule {
 public:
  UpdateRule() : UpdateRule(update_rules::Sgd{}) {}
  template <class Rule>
  requires(!std::is_same_v<Rule, UpdateRule>) UpdateRule(const Rule& rule)
      : index_(position<Rule>(UpdateRules{})) {
    static_assert(position<Rule>(UpdateRules{}) >= 0, "the rule is missing in `UpdateRules`");
    static_assert(std::is_trivially_copyable_v<Rule> && sizeof(Rule) <= sizeof(options_));
    std::memcpy(options_, &rule, sizeof(rule));
  }

  // Bound on every element of the unscaled gradient.
  double clip_value = std::numeric_limits<double>::infinity();

  // Calls visit(rule).
  template <class Visit>
  void visit(Visit&& visit) const {
    visit_one(UpdateRules{}, visit);
  }
  bool zero_grad_is_noop() const {
    bool zero_grad_is_noop = false;
    visit([&](const auto& rule) {
      if constexpr (requires { rule.zero_grad_is_noop(); }) zero_grad_is_noop = rule.zero_grad_is_noop();
    });
    return zero_grad_is_noop;
  }
  // Whether the learning rate depends on norms of the parameter (host).
  bool adapts() const {
    bool adapts = false;
    with_element([&]<class Formula>(TypeTag<Formula>) { adapts = Formula::kAdapts; });
    return adapts;
  }
  // Calls visit with the element formula (host).
  template <class Visit>
  void with_element(Visit&& visitor) const {
    visit([&](const auto& rule) { rule.with_element(visitor); });
  }
  TANDEM_HD void prepare(update_rules::UpdateConstants& k, const update_rules::ParameterUpdate& u) const {
    prepare_one(UpdateRules{}, k, u);
  }
  // From two norms above 0: of the parameter, and of the values of `compared`.
  TANDEM_HD double trust_ratio(const update_rules::ParameterUpdate& u, double weight, double other) const {
    double ratio = 1.0;
    trust_ratio_of_one(UpdateRules{}, u, weight, other, ratio);
    return ratio;
  }

 private:
  template <class Rule, class... Rules>
  static constexpr int position(update_rules::RuleList<Rules...>) {
    int at = -1, i = 0;
    ((at = std::is_same_v<Rule, Rules> ? i : at, ++i), ...);
    return at;
  }
  template <class Rule>
  TANDEM_HD Rule as() const {
    Rule rule;
    __builtin_memcpy(&rule, options_, sizeof(rule));
    return rule;
  }
  template <class... Rules, class Visit>
  void visit_one(update_rules::RuleList<Rules...>, Visit& visit) const {
    int i = 0;
    ((index_ == i++ ? visit(as<Rules>()) : void()), ...);
  }
  template <class... Rules>
  TANDEM_HD void prepare_one(update_rules::RuleList<Rules...>, update_rules::UpdateConstants& k,
                             const update_rules::ParameterUpdate& u) const {
    int i = 0;
    ((index_ == i++ ? as<Rules>().prepare(k, u) : void()), ...);
  }
  template <class Rule>
  TANDEM_HD void take_trust_ratio(const update_rules::ParameterUpdate& u, double weight, double other,
                                  double& ratio) const {
    if constexpr (requires { as<Rule>().trust_ratio(u, weight, other); })
      ratio = as<Rule>().trust_ratio(u, weight, other);
  }
  template <class... Rules>
  TANDEM_HD void trust_ratio_of_one(update_rules::RuleList<Rules...>, const update_rules::ParameterUpdate& u,
                                    double weight, double other, double& ratio) const {
    int i = 0;
    ((index_ == i++ ? take_trust_ratio<Rules>(u, weight, other, ratio) : void()), ...);
  }

  std::int32_t index_;
  unsigned char options_[48] = {};
};
static_assert(std::is_trivially_copyable_v<UpdateRule>);

namespace kernels {

using update_rules::UpdateConstants;

// `updates`: number of earlier updates of the parameter.
TANDEM_HD UpdateConstants constants_of(const UpdateRule& rule, const UpdateRange& range, std::int64_t updates,
                                       const StepState& state) {
  const update_rules::ParameterUpdate u{.lr = state.learning_rate * static_cast<double>(range.lr_factor),
                                        .weight_decay = static_cast<double>(range.weight_decay),
                                        .number = static_cast<double>(updates + 1)};
  UpdateConstants k;
  k.gradient_factor = factor_of_range(state.gradient_factor, range.gradient_log2);
  k.clip_value = static_cast<float>(rule.clip_value);
  k.lr = static_cast<float>(u.lr);
  k.weight_decay = range.weight_decay;
  rule.prepare(k, u);
  return k;
}

// Factor on the learning rate of a parameter from two squared norms: of the parameter, and of the values of
// `compared`. 1 if either norm is 0.
TANDEM_HD double trust_ratio(const UpdateRule& rule, const UpdateRange& range, double weight_squares,
                             double squares) {
  if (!range.adapt || !(weight_squares > 0.0) || !(squares > 0.0)) return 1.0;
  return rule.trust_ratio({.weight_decay = static_cast<double>(range.weight_decay)},
                          std::sqrt(weight_squares), std::sqrt(squares));
}

}  // namespace kernels

}  // namespace tandem
