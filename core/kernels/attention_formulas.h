// The formulas of attention (core/kernels/attention.h) for host and device.
#pragma once

#include "core/kernels/math.h"

namespace tandem::attention {

// Factor of the distance in the scores of head h of `heads`: 2^(-8(h+1)/n) for the largest power of two n
// within `heads`, and every other value of 2n heads for the rest (Press et al., "Train short, test long",
// ICLR 2022).
TANDEM_HD float alibi_slope(int h, int heads) {
  int n = 1;
  while (2 * n <= heads) n *= 2;
  const float exponent = h < n ? static_cast<float>(h + 1) : static_cast<float>(2 * (h - n) + 1) * 0.5f;
  return static_cast<float>(math::pow(2.0, -8.0 * static_cast<double>(exponent) / n));
}

// A term of an additive score: u_j·tanh(sum), where `sum` is feature j before tanh.
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
