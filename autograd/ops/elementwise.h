// Elementwise ops with NumPy broadcasting, and casts. The scalar formulas are in core/kernels/formulas.h.
//
// Operands of one op may differ in dtype; they are computed in f32 (f64 when one is f64, i64 when all are
// integral) and the result has their widest dtype. Comparisons give bool. Errors: UserError "[op] …" when
// shapes do not broadcast or the op is undefined for a dtype (sqrt of integers, gradients of integers).
#pragma once

#include "autograd/op.h"

namespace tandem {

// The same values in another dtype; the gradient is cast back. Identity when the dtype is the same.
Tensor cast(const Tensor& x, DType dtype);

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN wins; equal operands share the gradient
Tensor minimum(const Tensor& a, const Tensor& b);

Tensor add(const Tensor& a, double b);
Tensor sub(const Tensor& a, double b);
Tensor sub(double a, const Tensor& b);
Tensor mul(const Tensor& a, double b);
Tensor div(const Tensor& a, double b);
Tensor div(double a, const Tensor& b);
Tensor pow(const Tensor& base, double exponent);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return div(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(double a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(double a, const Tensor& b) { return div(a, b); }

Tensor neg(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return neg(x); }
Tensor abs(const Tensor& x);   // gradient 0 at 0
Tensor sign(const Tensor& x);  // gradient 0
Tensor square(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);   // gradient 0 at 0
Tensor relu6(const Tensor& x);  // min(max(x, 0), 6); gradient 0 at 0 and 6
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1.0);
enum class GeluForm : std::uint8_t { erf, tanh };
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::erf);
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x, double beta = 1.0,
                double threshold = 20.0);  // linear where beta·x > threshold
Tensor hardswish(const Tensor& x);
Tensor hardsigmoid(const Tensor& x);  // clamp(x + 3, 0, 6)/6; gradient 0 at -3 and 3
// slope [C] for the last axis of x, or one element.
Tensor prelu(const Tensor& x, const Tensor& slope);
Tensor clamp(const Tensor& x, double low, double high);  // gradient passes at the bounds

// condition ? a : b; condition is bool (any non-zero counts).
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor lerp(const Tensor& from, const Tensor& to, const Tensor& weight);
Tensor lerp(const Tensor& from, const Tensor& to, double weight);

Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

}  // namespace tandem
