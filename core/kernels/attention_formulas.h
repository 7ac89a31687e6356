// The formulas of additive attention (core/kernels/attention.h) for host and device.
#pragma once

#include "core/kernels/math.h"

namespace tandem::attention {

// A term of a score: u_j·tanh(sum), where `sum` is feature j before tanh.
template <class T>
TANDEM_HD T score_term(T u, T sum) {
  return u * math::tanh(sum);
}

// Gradient contribution of a score to one feature.
template <class T>
struct FeatureGradient {
  T sum, u;  // gradients of the argument of tanh and of u_j
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
