// The formulas of additive attention (core/attention.h) for host and device.
#pragma once

#include "core/kernels/math.h"

namespace tandem::attention {

// u_j·tanh of the sum that feature j has: a term of a score.
template <class T>
TANDEM_HD T score_term(T u, T sum) {
  return u * math::tanh(sum);
}

// What a score's gradient gives to a feature.
template <class T>
struct FeatureGradient {
  T sum, u;  // of what tanh is taken of, and of u_j
};

template <class T>
TANDEM_HD FeatureGradient<T> feature_gradient(T u, T sum, T dscore) {
  const T bent = math::tanh(sum);
  return {dscore * u * (T(1) - bent * bent), dscore * bent};
}

// u_j = g·v_j/‖v‖. With `along` = Σ v·du: dv_j = g/‖v‖·(du_j - v_j·along/‖v‖²), and dg = along/‖v‖.
template <class T>
TANDEM_HD T normalised_gradient(T v, T du, T g, T norm, T along) {
  return g / norm * (du - v * (along / (norm * norm)));
}

}  // namespace tandem::attention
