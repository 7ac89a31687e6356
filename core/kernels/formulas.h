// Scalar formulas of elementwise kernels, shared by all devices.
//
// A formula is a struct with
//   arity                     number of operands
//   eval(c, operands…)        the value, for compute types float, double and, if kIntegral, int64; `c` holds
//                             the formula's constants in the compute type
//   kSaves, derivative(c, s)  optional, arity 1: the derivative as a function of the saved input or output s
//   gradient(c, s, dy)        optional: dy·derivative, where the product could give 0·inf
// `Formulas` at the end lists all formulas; FormulaId is the position in that list.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "core/kernels/math.h"

namespace tandem {

// Position of a formula in the list `Formulas`.
enum class FormulaId : std::uint16_t {};

// The constants of a formula, such as a negative slope or the bounds of a clamp.
using Scalars = std::array<double, 4>;

}  // namespace tandem

namespace tandem::formulas {

template <class T>
struct Constants {
  T value[4];
  TANDEM_HD T operator[](int i) const { return value[i]; }
};

enum class Saves : std::uint8_t { nothing, input, output };

// Default properties of a formula.
template <int Arity, bool Integral = false, Saves Kept = Saves::nothing>
struct Traits {
  static constexpr int arity = Arity;
  static constexpr bool kIntegral = Integral;
  static constexpr Saves kSaves = Kept;
};

template <class F>
inline constexpr bool has_gradient_v = F::arity == 1 && F::kSaves != Saves::nothing;

// dx from the value saved by F, and dy.
template <class F>
struct GradientOf : Traits<2> {
  template <class T>
  TANDEM_HD static T eval(const Constants<T>& c, T saved, T dy) {
    if constexpr (requires { F::gradient(c, saved, dy); }) {
      return F::gradient(c, saved, dy);
    } else {
      return dy * F::derivative(c, saved);
    }
  }
};

// The derivative itself.
template <class F>
struct DerivativeOf : Traits<1> {
  template <class T>
  TANDEM_HD static T eval(const Constants<T>& c, T saved) {
    return GradientOf<F>::eval(c, saved, T(1));
  }
};

#define TANDEM_EVAL1 \
  template <class T> \
  TANDEM_HD static T eval([[maybe_unused]] const Constants<T>& c, T x)
#define TANDEM_EVAL2 \
  template <class T> \
  TANDEM_HD static T eval([[maybe_unused]] const Constants<T>& c, T a, T b)
#define TANDEM_EVAL3 \
  template <class T> \
  TANDEM_HD static T eval([[maybe_unused]] const Constants<T>& c, T p, T q, T r)
#define TANDEM_DERIVATIVE \
  template <class T>      \
  TANDEM_HD static T derivative([[maybe_unused]] const Constants<T>& c, [[maybe_unused]] T s)
#define TANDEM_GRADIENT \
  template <class T>    \
  TANDEM_HD static T gradient([[maybe_unused]] const Constants<T>& c, T s, T dy)

// ---- one operand

struct Identity : Traits<1, true> {
  TANDEM_EVAL1 { return x; }
};
struct Neg : Traits<1, true> {
  TANDEM_EVAL1 { return -x; }
};
struct Sign : Traits<1, true> {
  TANDEM_EVAL1 { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }  // keeps NaN and signed zero
};
struct Abs : Traits<1, true, Saves::input> {
  TANDEM_EVAL1 {
    if constexpr (std::is_integral_v<T>) {
      return x < T(0) ? -x : x;
    } else {
      return std::fabs(x);
    }
  }
  TANDEM_GRADIENT { return s > T(0) ? dy : s < T(0) ? -dy : T(0); }
};
struct Square : Traits<1, true, Saves::input> {
  TANDEM_EVAL1 { return x * x; }
  TANDEM_DERIVATIVE { return T(2) * s; }
};
struct Sqrt : Traits<1, false, Saves::output> {
  TANDEM_EVAL1 { return math::sqrt(x); }
  TANDEM_DERIVATIVE { return T(0.5) / s; }
};
struct Rsqrt : Traits<1, false, Saves::output> {
  TANDEM_EVAL1 { return T(1) / math::sqrt(x); }
  TANDEM_DERIVATIVE { return T(-0.5) * s * s * s; }
};
struct Reciprocal : Traits<1, false, Saves::output> {
  TANDEM_EVAL1 { return T(1) / x; }
  TANDEM_DERIVATIVE { return -s * s; }
};
struct Exp : Traits<1, false, Saves::output> {
  TANDEM_EVAL1 { return math::exp(x); }
  TANDEM_DERIVATIVE { return s; }
};
struct Expm1 : Traits<1, false, Saves::output> {
  TANDEM_EVAL1 { return math::expm1(x); }
  TANDEM_DERIVATIVE { return s + T(1); }
};
struct Log : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return math::log(x); }
  TANDEM_DERIVATIVE { return T(1) / s; }
};
struct Log1p : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return math::log1p(x); }
  TANDEM_DERIVATIVE { return T(1) / (T(1) + s); }
};
struct Sin : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return math::sin(x); }
  TANDEM_DERIVATIVE { return math::cos(s); }
};
struct Cos : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return math::cos(x); }
  TANDEM_DERIVATIVE { return -math::sin(s); }
};
struct Tanh : Traits<1, false, Saves::output> {
  TANDEM_EVAL1 { return math::tanh(x); }
  TANDEM_DERIVATIVE { return (T(1) - s) * (T(1) + s); }
};
struct Sigmoid : Traits<1, false, Saves::output> {
  TANDEM_EVAL1 { return math::sigmoid(x); }
  TANDEM_DERIVATIVE { return s * (T(1) - s); }
};
struct Erf : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return math::erf(x); }
  TANDEM_DERIVATIVE { return T(1.12837916709551257390) * math::exp(-s * s); }
};
struct Relu : Traits<1, true, Saves::output> {
  TANDEM_EVAL1 { return x < T(0) ? T(0) : x; }  // keeps NaN
  TANDEM_GRADIENT { return s > T(0) ? dy : T(0); }
};
struct Relu6 : Traits<1, true, Saves::output> {
  TANDEM_EVAL1 { return x < T(0) ? T(0) : x > T(6) ? T(6) : x; }
  TANDEM_GRADIENT { return s > T(0) && s < T(6) ? dy : T(0); }
};
// c[0]: the negative slope.
struct LeakyRelu : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return x > T(0) ? x : x * c[0]; }
  TANDEM_GRADIENT { return s > T(0) ? dy : dy * c[0]; }
};
// c[0]: alpha.
struct Elu : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return x > T(0) ? x : c[0] * math::expm1(x); }
  TANDEM_GRADIENT { return s > T(0) ? dy : dy * c[0] * math::exp(s); }
};
struct Gelu : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return x * math::normal_cdf(x); }
  TANDEM_DERIVATIVE { return math::normal_cdf(s) + s * math::normal_pdf(s); }
};
// Hendrycks and Gimpel's approximation: x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), written as x·sigmoid(2·…).
struct GeluTanh : Traits<1, false, Saves::input> {
  template <class T>
  TANDEM_HD static T gate(T x) {
    return math::sigmoid(T(1.59576912160573071176) * (x + T(0.044715) * x * x * x));
  }
  TANDEM_EVAL1 { return x * gate(x); }
  TANDEM_DERIVATIVE {
    const T g = gate(s);
    return g + s * g * (T(1) - g) * T(1.59576912160573071176) * (T(1) + T(0.134145) * s * s);
  }
};
struct Silu : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return x * math::sigmoid(x); }
  TANDEM_DERIVATIVE {
    const T g = math::sigmoid(s);
    return g * (T(1) + s * (T(1) - g));
  }
};
// c[0]: beta, c[1]: threshold on beta·x.
struct Softplus : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return x * c[0] > c[1] ? x : math::log1p(math::exp(x * c[0])) / c[0]; }
  TANDEM_GRADIENT { return s * c[0] > c[1] ? dy : dy * math::sigmoid(s * c[0]); }
};
struct Hardswish : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 {
    const T gate = x + T(3);
    return x * (gate < T(0) ? T(0) : gate > T(6) ? T(6) : gate) / T(6);
  }
  TANDEM_GRADIENT { return s < T(-3) ? T(0) : s > T(3) ? dy : dy * (s / T(3) + T(0.5)); }
};
// Saves the input, because a 16-bit output near the bounds rounds to them.
struct Hardsigmoid : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 {
    const T gate = x + T(3);
    return (gate < T(0) ? T(0) : gate > T(6) ? T(6) : gate) / T(6);
  }
  TANDEM_GRADIENT { return s > T(-3) && s < T(3) ? dy / T(6) : T(0); }
};
// c[0], c[1]: the bounds.
struct Clamp : Traits<1, true, Saves::input> {
  TANDEM_EVAL1 {
    const T raised = x < c[0] ? c[0] : x;
    return raised > c[1] ? c[1] : raised;
  }
  TANDEM_GRADIENT { return s < c[0] || s > c[1] ? T(0) : dy; }
};
// c[0]: the other operand, for the next five formulas.
struct AddScalar : Traits<1, true> {
  TANDEM_EVAL1 { return x + c[0]; }
};
struct MulScalar : Traits<1, true> {
  TANDEM_EVAL1 { return x * c[0]; }
};
struct DivScalar : Traits<1> {
  TANDEM_EVAL1 { return x / c[0]; }
};
struct ScalarSub : Traits<1, true> {
  TANDEM_EVAL1 { return c[0] - x; }
};
struct ScalarDiv : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return c[0] / x; }
  TANDEM_DERIVATIVE { return -c[0] / (s * s); }
};
struct PowScalar : Traits<1, false, Saves::input> {
  TANDEM_EVAL1 { return math::pow(x, c[0]); }
  TANDEM_GRADIENT { return c[0] == T(0) ? T(0) : dy * c[0] * math::pow(s, c[0] - T(1)); }
};

// ---- two and three operands

struct Add : Traits<2, true> {
  TANDEM_EVAL2 { return a + b; }
};
struct Sub : Traits<2, true> {
  TANDEM_EVAL2 { return a - b; }
};
struct Mul : Traits<2, true> {
  TANDEM_EVAL2 { return a * b; }
};
struct Div : Traits<2> {
  TANDEM_EVAL2 { return a / b; }
};
struct Pow : Traits<2> {
  TANDEM_EVAL2 { return math::pow(a, b); }
};
struct Maximum : Traits<2, true> {
  TANDEM_EVAL2 { return a > b || a != a ? a : b; }
};
struct Minimum : Traits<2, true> {
  TANDEM_EVAL2 { return a < b || a != a ? a : b; }
};
struct Equal : Traits<2, true> {
  TANDEM_EVAL2 { return T(a == b); }
};
struct NotEqual : Traits<2, true> {
  TANDEM_EVAL2 { return T(a != b); }
};
struct Less : Traits<2, true> {
  TANDEM_EVAL2 { return T(a < b); }
};
struct LessEqual : Traits<2, true> {
  TANDEM_EVAL2 { return T(a <= b); }
};
struct Greater : Traits<2, true> {
  TANDEM_EVAL2 { return T(a > b); }
};
struct GreaterEqual : Traits<2, true> {
  TANDEM_EVAL2 { return T(a >= b); }
};
// x, slope.
struct Prelu : Traits<2> {
  TANDEM_EVAL2 { return a > T(0) ? a : a * b; }
};
// Condition, then, else.
struct Where : Traits<3, true> {
  TANDEM_EVAL3 { return p != T(0) ? q : r; }
};
// From, to, weight; exact for weights 0 and 1.
struct Lerp : Traits<3> {
  TANDEM_EVAL3 {
    const T d = q - p;
    return r < T(0.5) ? p + r * d : q - (T(1) - r) * d;
  }
};
// From, to; c[0]: weight.
struct LerpScalar : Traits<2> {
  TANDEM_EVAL2 { return Lerp::eval(c, a, b, c[0]); }
};

// ---- gradients of the above

// Denominator, dy → d numerator.
struct Quotient : Traits<2> {
  TANDEM_EVAL2 { return b / a; }
};
// Numerator, denominator, dy → d denominator.
struct DivGradient : Traits<3> {
  TANDEM_EVAL3 { return -r * (p / q) / q; }
};
// Base, exponent, dy → d base, d exponent.
struct PowGradientBase : Traits<3> {
  TANDEM_EVAL3 { return q == T(0) ? T(0) : r * q * math::pow(p, q - T(1)); }
};
struct PowGradientExponent : Traits<3> {
  TANDEM_EVAL3 { return p == T(0) && q >= T(0) ? T(0) : r * math::pow(p, q) * math::log(p); }
};
// This operand, the other one → gradient share of the larger (smaller): 1, ½ if equal, 0.
struct MaximumShare : Traits<2> {
  TANDEM_EVAL2 { return a == b ? T(0.5) : a > b || a != a ? T(1) : T(0); }
};
struct MinimumShare : Traits<2> {
  TANDEM_EVAL2 { return a == b ? T(0.5) : a < b || a != a ? T(1) : T(0); }
};
// This operand, the other one, dy → share·dy.
struct MaximumGradient : Traits<3> {
  TANDEM_EVAL3 {
    const T share = MaximumShare::eval(c, p, q);
    return share == T(0) ? T(0) : share * r;
  }
};
struct MinimumGradient : Traits<3> {
  TANDEM_EVAL3 {
    const T share = MinimumShare::eval(c, p, q);
    return share == T(0) ? T(0) : share * r;
  }
};
// x, slope, dy → dx.
struct PreluGradient : Traits<3> {
  TANDEM_EVAL3 { return p > T(0) ? r : r * q; }
};
// x, dy → d slope.
struct PreluSlopeGradient : Traits<2> {
  TANDEM_EVAL2 { return a > T(0) ? T(0) : a * b; }
};
// Condition, dy → dy where the condition is true (false), else 0.
struct KeepWhere : Traits<2, true> {
  TANDEM_EVAL2 { return a != T(0) ? b : T(0); }
};
struct KeepUnless : Traits<2, true> {
  TANDEM_EVAL2 { return a != T(0) ? T(0) : b; }
};
// Weight, dy → (1-weight)·dy.
struct MulComplement : Traits<2> {
  TANDEM_EVAL2 { return (T(1) - a) * b; }
};
// From, to, dy → (to-from)·dy.
struct MulDifference : Traits<3> {
  TANDEM_EVAL3 { return (q - p) * r; }
};
// Share, dy → share·dy; 0 for share 0 and any dy.
struct KeepShare : Traits<2> {
  TANDEM_EVAL2 { return a == T(0) ? T(0) : a * b; }
};
// x, extremum of its range → 1 if x equals the extremum or is NaN.
struct IsExtremum : Traits<2> {
  TANDEM_EVAL2 { return a == b || a != a ? T(1) : T(0); }
};
// x, logsumexp of its range, dy → softmax(x)·dy; 0 if the whole range is minus infinity.
struct LogSumExpGradient : Traits<3> {
  TANDEM_EVAL3 { return p == -std::numeric_limits<T>::infinity() ? T(0) : r * math::exp(p - q); }
};
// x, norm of its range, dy → dy·x/norm, 0 at the origin.
struct NormGradient : Traits<3> {
  TANDEM_EVAL3 { return q == T(0) ? T(0) : r * (p / q); }
};
// x, mean of its range, dy → c[0]·(x-mean)·dy.
struct VarGradient : Traits<3> {
  TANDEM_EVAL3 { return c[0] * (p - q) * r; }
};
// a - b, squared.
struct SquaredDifference : Traits<2> {
  TANDEM_EVAL2 {
    const T d = a - b;
    return d * d;
  }
};
// Huber loss of |a - b|: with m = min(|a - b|, c[0]) it is c[1]·m·(|a - b| - m/2).
struct Huber : Traits<2> {
  TANDEM_EVAL2 {
    const T d = std::fabs(a - b), m = d > c[0] ? c[0] : d;
    return m * (d - m * T(0.5)) * c[1];
  }
};
// From, to, dy → gradient of the Huber loss for `from`.
struct HuberGradient : Traits<3> {
  TANDEM_EVAL3 { return Clamp::eval({-c[0], c[0]}, p - q) * c[1] * r; }
};

#undef TANDEM_EVAL1
#undef TANDEM_EVAL2
#undef TANDEM_EVAL3
#undef TANDEM_DERIVATIVE
#undef TANDEM_GRADIENT

// ---- the list

template <class... F>
struct FormulaList {
  static constexpr int size = sizeof...(F);
};

using Forward = FormulaList<Identity, Neg, Sign, Abs, Square, Sqrt, Rsqrt, Reciprocal, Exp, Expm1, Log, Log1p,
                            Sin, Cos, Tanh, Sigmoid, Erf, Relu, Relu6, LeakyRelu, Elu, Gelu, GeluTanh, Silu,
                            Softplus, Hardswish, Hardsigmoid, Clamp, AddScalar, MulScalar, DivScalar,
                            ScalarSub, ScalarDiv, PowScalar, Add, Sub, Mul, Div, Pow, Maximum, Minimum, Equal,
                            NotEqual, Less, LessEqual, Greater, GreaterEqual, Prelu, Where, Lerp, LerpScalar>;

using Gradients =
    FormulaList<Quotient, DivGradient, PowGradientBase, PowGradientExponent, MaximumShare, MinimumShare,
                MaximumGradient, MinimumGradient, PreluGradient, PreluSlopeGradient, KeepWhere, KeepUnless,
                MulComplement, MulDifference, KeepShare, IsExtremum, LogSumExpGradient, NormGradient,
                VarGradient, SquaredDifference, Huber, HuberGradient>;

using UnaryGradients =
    FormulaList<GradientOf<Abs>, GradientOf<Square>, GradientOf<Sqrt>, GradientOf<Rsqrt>,
                GradientOf<Reciprocal>, GradientOf<Exp>, GradientOf<Expm1>, GradientOf<Log>,
                GradientOf<Log1p>, GradientOf<Sin>, GradientOf<Cos>, GradientOf<Tanh>, GradientOf<Sigmoid>,
                GradientOf<Erf>, GradientOf<Relu>, GradientOf<Relu6>, GradientOf<LeakyRelu>, GradientOf<Elu>,
                GradientOf<Gelu>, GradientOf<GeluTanh>, GradientOf<Silu>, GradientOf<Softplus>,
                GradientOf<Hardswish>, GradientOf<Hardsigmoid>, GradientOf<Clamp>, GradientOf<ScalarDiv>,
                GradientOf<PowScalar>>;

// Piecewise constant derivatives, whose own derivative is 0.
using StepDerivatives = FormulaList<DerivativeOf<Abs>, DerivativeOf<Relu>, DerivativeOf<Relu6>,
                                    DerivativeOf<LeakyRelu>, DerivativeOf<Hardsigmoid>, DerivativeOf<Clamp>>;

namespace detail {

template <class... Lists>
struct Join;
template <class... A>
struct Join<FormulaList<A...>> {
  using type = FormulaList<A...>;
};
template <class... A, class... B, class... Rest>
struct Join<FormulaList<A...>, FormulaList<B...>, Rest...> {
  using type = typename Join<FormulaList<A..., B...>, Rest...>::type;
};

template <class F, class... All>
constexpr int position(FormulaList<All...>) {
  int found = -1, i = 0;
  ((found = std::is_same_v<F, All> ? i : found, ++i), ...);
  return found;
}

}  // namespace detail

using Formulas = typename detail::Join<Forward, Gradients, UnaryGradients, StepDerivatives>::type;

}  // namespace tandem::formulas

namespace tandem {

template <class F>
constexpr FormulaId formula_id() {
  constexpr int position = formulas::detail::position<F>(formulas::Formulas{});
  static_assert(position >= 0, "the formula is missing in `Formulas`");
  return static_cast<FormulaId>(position);
}

}  // namespace tandem
