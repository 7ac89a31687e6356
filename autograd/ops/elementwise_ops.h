// The op structs behind elementwise.h, and their list.
//
// Backward has two forms. In first order one kernel reads the saved tensors and dy and writes into the
// engine's sink if there is one; under create_graph the rule is composed of public ops.
#pragma once

#include "autograd/ops/elementwise.h"
#include "autograd/ops/parts.h"
#include "core/kernels/formulas.h"

namespace tandem {

namespace ops {

constexpr OpTraits pointwise_traits(OpKind kind, const char* onnx = nullptr) {
  return {.kind = kind, .family = "elementwise", .onnx = onnx};
}

// An elementwise result of the context's dtype (or `dtype`): checks the operands and runs `formula`.
struct PointwiseCall {
  const OpInfo& info;
  FormulaId formula;
  bool integral;  // the formula is defined for integers
  const Scalars& scalars;
  std::span<const Tensor> operands;
};
Tensor pointwise_forward(Context& context, const PointwiseCall& call);
Tensor pointwise_forward(Context& context, const PointwiseCall& call, DType dtype);

// A gradient as one kernel call; dy is the last operand.
struct GradientCall {
  FormulaId formula;
  const Scalars& scalars;
  std::span<const Tensor> operands;
  bool overwrite = false;  // dy has no other reader: the result may overwrite it
};
// The gradient of input `input` of shape `shape`: written into its sink if there is one, and summed over its
// broadcast axes.
Tensor pointwise_gradient(const GradientCall& call, const Shape& shape, const Needs& needs,
                          std::size_t input);
// Reduces `full`, with the shape of the op's output, to the gradient of an input of shape `shape`.
Tensor broadcast_gradient(const Tensor& full, const Shape& shape, const Needs& needs, std::size_t input);
// formula(operands), untaped, in the dtype of the first floating operand.
Tensor pointwise_plain(FormulaId formula, const Scalars& scalars, std::span<const Tensor> operands);

struct Unary {
  using In = Operand;
  struct Saved {
    Tensor value;  // x or y, depending on the formula
  };
  using Out = Result;
};

// y = F(x). Derived defines `info` and one of: nothing, when the derivative of F is a step function; taped(),
// dx from the saved tensor and dy by public ops; linear(), dx from dy alone.
template <class Derived, class F>
struct UnaryOp : Unary {
  Scalars scalars{};

  Out forward(Context& context, Saved& saved, const In& in) const {
    Out out{pointwise_forward(context, {Derived::info, formula_id<F>(), F::kIntegral, scalars, {&in.x, 1}})};
    if constexpr (F::kSaves == formulas::Saves::input) saved.value = in.x;
    if constexpr (F::kSaves == formulas::Saves::output) saved.value = out.y;
    return out;
  }

  In backward(const Saved& saved, const Out& dy, const Needs& needs) const {
    if constexpr (!formulas::has_gradient_v<F>) {
      return {Derived::linear(scalars, dy.y)};
    } else {
      if (!needs.create_graph()) {
        const bool overwrite = needs.may_overwrite(dy.y);
        const Tensor operands[] = {saved.value, dy.y};
        return {pointwise_gradient({formula_id<formulas::GradientOf<F>>(), scalars, operands, overwrite},
                                   dy.y.shape(), needs, 0)};
      }
      if constexpr (requires { Derived::taped(scalars, saved.value, dy.y); }) {
        return {Derived::taped(scalars, saved.value, dy.y)};
      } else {
        return {
            mul(dy.y, pointwise_plain(formula_id<formulas::DerivativeOf<F>>(), scalars, {&saved.value, 1}))};
      }
    }
  }
};

#define TANDEM_UNARY(Name, op_name, rule, kind, ...)      \
  struct Name : UnaryOp<Name, formulas::Name> {           \
    static constexpr OpInfo info{op_name, CastRule::rule, \
                                 pointwise_traits(OpKind::kind __VA_OPT__(, ) __VA_ARGS__)};

#define TANDEM_TAPED static Tensor taped(const Scalars& c, const Tensor& s, const Tensor& dy)
#define TANDEM_LINEAR static Tensor linear(const Scalars& c, const Tensor& dy)

// clang-format off
TANDEM_UNARY(Neg, "neg", neutral, negates, "Neg") TANDEM_LINEAR; };
TANDEM_UNARY(Abs, "abs", neutral, folds, "Abs") };
TANDEM_UNARY(Sign, "sign", neutral, elementwise, "Sign") TANDEM_LINEAR; };
TANDEM_UNARY(Square, "square", fp32, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Sqrt, "sqrt", neutral, elementwise, "Sqrt") TANDEM_TAPED; };
TANDEM_UNARY(Rsqrt, "rsqrt", fp32, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Reciprocal, "reciprocal", fp32, elementwise, "Reciprocal") TANDEM_TAPED; };
TANDEM_UNARY(Exp, "exp", fp32, elementwise, "Exp") TANDEM_TAPED; };
TANDEM_UNARY(Expm1, "expm1", fp32, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Log, "log", fp32, elementwise, "Log") TANDEM_TAPED; };
TANDEM_UNARY(Log1p, "log1p", fp32, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Sin, "sin", neutral, elementwise, "Sin") TANDEM_TAPED; };
TANDEM_UNARY(Cos, "cos", neutral, elementwise, "Cos") TANDEM_TAPED; };
TANDEM_UNARY(Tanh, "tanh", neutral, elementwise, "Tanh") TANDEM_TAPED; };
TANDEM_UNARY(Sigmoid, "sigmoid", neutral, elementwise, "Sigmoid") TANDEM_TAPED; };
TANDEM_UNARY(Erf, "erf", neutral, elementwise, "Erf") TANDEM_TAPED; };
TANDEM_UNARY(Relu, "relu", neutral, folds, "Relu") };
TANDEM_UNARY(Relu6, "relu6", neutral, folds) };
TANDEM_UNARY(LeakyRelu, "leaky_relu", neutral, elementwise) };
TANDEM_UNARY(Elu, "elu", neutral, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Gelu, "gelu", neutral, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(GeluTanh, "gelu_tanh", neutral, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Silu, "silu", neutral, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Softplus, "softplus", fp32, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Hardswish, "hardswish", neutral, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(Hardsigmoid, "hardsigmoid", neutral, elementwise) };
TANDEM_UNARY(Clamp, "clamp", neutral, elementwise) };
TANDEM_UNARY(AddScalar, "add_scalar", neutral, adds) TANDEM_LINEAR; };
TANDEM_UNARY(MulScalar, "mul_scalar", neutral, elementwise) TANDEM_LINEAR; };
TANDEM_UNARY(DivScalar, "div_scalar", neutral, elementwise) TANDEM_LINEAR; };
TANDEM_UNARY(ScalarSub, "scalar_sub", neutral, elementwise) TANDEM_LINEAR; };
TANDEM_UNARY(ScalarDiv, "scalar_div", neutral, elementwise) TANDEM_TAPED; };
TANDEM_UNARY(PowScalar, "pow_scalar", fp32, elementwise) TANDEM_TAPED; };
// clang-format on

#undef TANDEM_UNARY
#undef TANDEM_TAPED
#undef TANDEM_LINEAR

struct Cast : Unary {
  static constexpr OpInfo info{"cast", CastRule::none, {.kind = OpKind::casts}};
  DType from = DType::f32, to = DType::f32;

  Out forward(Context& context, Nothing&, const In& in) const;
  In backward(const Nothing&, const Out& dy, const Needs& needs) const;
};

// Two operands that broadcast. Precision never changes their shapes.
struct Binary {
  struct In {
    Tensor a, b;
  };
  struct Saved {
    Tensor a, b;  // absent if no gradient needs them
  };
  using Out = Result;
  Shape a_shape, b_shape;
};

#define TANDEM_BINARY(Name, op_name, rule, kind, ...)                                        \
  struct Name : Binary {                                                                     \
    static constexpr OpInfo info{op_name, CastRule::rule,                                    \
                                 pointwise_traits(OpKind::kind __VA_OPT__(, ) __VA_ARGS__)}; \
    Out forward(Context& context, Saved& saved, const In& in) const;                         \
    In backward(const Saved& saved, const Out& dy, const Needs&) const;                      \
  };

TANDEM_BINARY(Add, "add", widest, adds, "Add")
TANDEM_BINARY(Sub, "sub", widest, adds, "Sub")
TANDEM_BINARY(Mul, "mul", widest, elementwise, "Mul")
TANDEM_BINARY(Div, "div", widest, elementwise, "Div")
TANDEM_BINARY(Pow, "pow", fp32, elementwise, "Pow")
TANDEM_BINARY(Maximum, "maximum", widest, selects, "Max")
TANDEM_BINARY(Minimum, "minimum", widest, selects, "Min")
TANDEM_BINARY(Prelu, "prelu", lower, elementwise)

#undef TANDEM_BINARY

struct LerpScalar : Binary {
  static constexpr OpInfo info{"lerp_scalar", CastRule::widest, {.kind = OpKind::elementwise}};
  double weight = 0.0;
  Out forward(Context& context, Nothing&, const In& in) const;
  In backward(const Nothing&, const Out& dy, const Needs& needs) const;
};

struct Lerp {
  static constexpr OpInfo info{"lerp", CastRule::widest, {.kind = OpKind::elementwise}};
  struct In {
    Tensor from, to, weight;
  };
  struct Saved {
    Tensor from, to, weight;
  };
  Shape from_shape, to_shape, weight_shape;
  Result forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Result& dy, const Needs& needs) const;
};

struct Where {
  static constexpr OpInfo info{
      "where", CastRule::widest, {.kind = OpKind::selects, .family = "elementwise"}, {keep, data, data}};
  struct In {
    Tensor condition, a, b;
  };
  struct Saved {
    Tensor condition;
  };
  Shape a_shape, b_shape;
  Result forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Result& dy, const Needs& needs) const;
};

// y = F(a, b) as bool.
template <class Derived, class F>
struct Comparison {
  struct In {
    Tensor a, b;
  };
  Result forward(Context& context, Nothing&, const In& in) const {
    const Tensor operands[] = {in.a, in.b};
    return {pointwise_forward(context, {Derived::info, formula_id<F>(), true, Scalars{}, operands},
                              DType::boolean)};
  }
};

struct Equal : Comparison<Equal, formulas::Equal> {
  static constexpr OpInfo info{"equal", CastRule::widest, {.kind = OpKind::elementwise}};
};
struct NotEqual : Comparison<NotEqual, formulas::NotEqual> {
  static constexpr OpInfo info{"not_equal", CastRule::widest, {.kind = OpKind::elementwise}};
};
struct Less : Comparison<Less, formulas::Less> {
  static constexpr OpInfo info{"less", CastRule::widest, {.kind = OpKind::elementwise}};
};
struct LessEqual : Comparison<LessEqual, formulas::LessEqual> {
  static constexpr OpInfo info{"less_equal", CastRule::widest, {.kind = OpKind::elementwise}};
};
struct Greater : Comparison<Greater, formulas::Greater> {
  static constexpr OpInfo info{"greater", CastRule::widest, {.kind = OpKind::elementwise}};
};
struct GreaterEqual : Comparison<GreaterEqual, formulas::GreaterEqual> {
  static constexpr OpInfo info{"greater_equal", CastRule::widest, {.kind = OpKind::elementwise}};
};

}  // namespace ops

}  // namespace tandem
