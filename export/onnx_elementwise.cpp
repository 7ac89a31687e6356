#include <algorithm>
#include <numbers>

#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/pairs_ops.h"
#include "export/onnx_translation.h"

namespace tandem::exporting {

namespace {

// Builder of the nodes of an op with one operand; `scalar` adds an f32 constant.
class Formula {
 public:
  explicit Formula(const TranslationContext& context) : graph_(context.graph), x_(context.inputs[0]) {}

  bool has_gelu() const { return graph_.opset() >= 20; }
  const std::string& x() const { return x_.name; }
  const std::vector<int>& order() const { return x_.order; }
  std::string scalar(double value) { return graph_.constant(value); }
  std::string operator()(const std::string& op, std::vector<std::string> inputs,
                         const Attributes& attributes = {}) {
    return graph_.add(op, std::move(inputs), attributes);
  }

 private:
  Graph& graph_;
  const Value& x_;
};

template <class Op>
using OneOperand = std::string (*)(Formula&, const Op&);

// The result has the axis order of the operand.
template <class Op, OneOperand<Op> formula>
Value translate(const TranslationContext& context, const Op& op) {
  Formula building(context);
  return context.result(formula(building, op), building.order());
}

std::string square(Formula& f, const ops::Square&) { return f("Mul", {f.x(), f.x()}); }
std::string rsqrt(Formula& f, const ops::Rsqrt&) { return f("Reciprocal", {f("Sqrt", {f.x()})}); }
std::string leaky_relu(Formula& f, const ops::LeakyRelu& op) {
  return f("LeakyRelu", {f.x()}, {{"alpha", op.scalars[0]}});
}
std::string elu(Formula& f, const ops::Elu& op) { return f("Elu", {f.x()}, {{"alpha", op.scalars[0]}}); }
std::string silu(Formula& f, const ops::Silu&) { return f("Mul", {f.x(), f("Sigmoid", {f.x()})}); }
std::string hardswish(Formula& f, const ops::Hardswish&) { return f("HardSwish", {f.x()}); }
std::string hardsigmoid(Formula& f, const ops::Hardsigmoid&) {
  return f("HardSigmoid", {f.x()}, {{"alpha", 1.0 / 6.0}});
}
std::string relu6(Formula& f, const ops::Relu6&) { return f("Clip", {f.x(), f.scalar(0.0), f.scalar(6.0)}); }

// x/2·(1 + erf(x/√2)).
std::string gelu(Formula& f, const ops::Gelu&) {
  if (f.has_gelu()) return f("Gelu", {f.x()}, {{"approximate", "none"}});
  const std::string erf = f("Erf", {f("Mul", {f.x(), f.scalar(std::numbers::sqrt2 / 2)})});
  return f("Mul", {f("Mul", {f.x(), f.scalar(0.5)}), f("Add", {erf, f.scalar(1.0)})});
}

// x·sigmoid(√(8/π)·(x + 0.044715·x³)), as in core/kernels/formulas.h.
std::string gelu_tanh(Formula& f, const ops::GeluTanh&) {
  if (f.has_gelu()) return f("Gelu", {f.x()}, {{"approximate", "tanh"}});
  const std::string square = f("Mul", {f.x(), f.x()});
  const std::string factor = f("Add", {f("Mul", {square, f.scalar(0.044715)}), f.scalar(1.0)});
  const std::string inner = f("Mul", {f("Mul", {f.x(), factor}), f.scalar(1.59576912160573071176)});
  return f("Mul", {f.x(), f("Sigmoid", {inner})});
}

// log(1 + exp(beta·x))/beta, or x if beta·x is above the threshold.
std::string softplus(Formula& f, const ops::Softplus& op) {
  const double beta = op.scalars[0], threshold = op.scalars[1];
  const std::string scaled = beta == 1.0 ? f.x() : f("Mul", {f.x(), f.scalar(beta)});
  std::string smooth = f("Softplus", {scaled});
  if (beta != 1.0) smooth = f("Div", {smooth, f.scalar(beta)});
  return f("Where", {f("Greater", {scaled, f.scalar(threshold)}), f.x(), smooth});
}

std::string clamp(Formula& f, const ops::Clamp& op) {
  return f("Clip", {f.x(), f.scalar(op.scalars[0]), f.scalar(op.scalars[1])});
}
std::string add_scalar(Formula& f, const ops::AddScalar& op) {
  return f("Add", {f.x(), f.scalar(op.scalars[0])});
}
std::string mul_scalar(Formula& f, const ops::MulScalar& op) {
  return f("Mul", {f.x(), f.scalar(op.scalars[0])});
}
std::string div_scalar(Formula& f, const ops::DivScalar& op) {
  return f("Div", {f.x(), f.scalar(op.scalars[0])});
}
std::string scalar_sub(Formula& f, const ops::ScalarSub& op) {
  return f("Sub", {f.scalar(op.scalars[0]), f.x()});
}
std::string scalar_div(Formula& f, const ops::ScalarDiv& op) {
  return f("Div", {f.scalar(op.scalars[0]), f.x()});
}
std::string pow_scalar(Formula& f, const ops::PowScalar& op) {
  return f("Pow", {f.x(), f.scalar(op.scalars[0])});
}

// Casts of integers to f32 only.
std::vector<Value> cast(const TranslationContext& context) {
  const Tensor &x = context.call.inputs[0], &y = context.call.outputs[0];
  if (x.dtype() != DType::i64 || y.dtype() != DType::f32)
    context.refuse(fmt::format("from {} to {} has no translation", name_of(x.dtype()), name_of(y.dtype())));
  return {
      context.result(context.graph.as_type(context.inputs[0].name, OnnxType::f32), context.inputs[0].order)};
}

// One slope, or one for each element of the last axis, which is axis 1 in ONNX.
Value prelu(const TranslationContext& context, const ops::Prelu&) {
  Graph& graph = context.graph;
  const Value x = graph.with_channels_first(context.inputs[0]);
  std::string slope = context.inputs[1].name;
  if (context.inputs[1].shape.numel() > 1 && x.rank() > 2) {
    std::vector<Index> extents(static_cast<std::size_t>(x.rank() - 1), 1);
    extents[0] = x.shape.at(-1);
    slope = graph.add("Reshape", {slope, graph.constant(extents)});
  }
  return context.result(graph.add("PRelu", {x.name, slope}), x.order);
}

Value swiglu(const TranslationContext& context, const ops::Swiglu&) {
  Graph& graph = context.graph;
  const Value x = graph.as_here(context.inputs[0]);
  const std::vector<std::string> parts = graph.split_evenly(x.name, 2, -1);
  const std::string gate = graph.add("Mul", {parts[0], graph.add("Sigmoid", {parts[0]})});
  return context.result(graph.add("Mul", {gate, parts[1]}));
}

// Cosines and sines [T,1,D/2] of the rows of x, or [N,T,1,D/2] of its positions. Layers share them.
std::vector<std::string> rotary_angles(const TranslationContext& context, const ops::Rotary& op) {
  Graph& graph = context.graph;
  const Graph::Sharing sharing(graph);
  const std::string table = graph.as_here(context.inputs[1]).name;
  const auto list = [&](Index value) { return graph.constant(std::vector<Index>{value}); };
  std::string rows;
  if (context.inputs[2].defined()) {
    rows = graph.add("Gather", {table, graph.as_here(context.inputs[2]).name}, {{"axis", Index{0}}});
  } else {
    const std::string steps = graph.extent(context.inputs[0].shape[1]);
    const std::string last = op.first == 0 ? steps : graph.add("Add", {steps, list(op.first)});
    rows = graph.add("Slice", {table, list(op.first), last, list(0)});
  }
  return graph.split_evenly(graph.add("Unsqueeze", {rows, list(-2)}), 2, -1);
}

// RotaryEmbedding, whose rows have positions.
Value rotary_embedding(const TranslationContext& context, const ops::Rotary& op) {
  Graph& graph = context.graph;
  const std::string x = graph.as_here(context.inputs[0]).name;
  std::vector<std::string> given{x};
  {
    const Graph::Sharing sharing(graph);
    for (const std::string& part : graph.split_evenly(graph.as_here(context.inputs[1]).name, 2, -1))
      given.push_back(part);
  }
  given.push_back(graph.as_here(context.inputs[2]).name);
  return context.result(
      graph.add("RotaryEmbedding", given, {{"interleaved", Index{op.interleaved}}, {"num_heads", op.heads}}));
}

Value rotary(const TranslationContext& context, const ops::Rotary& op) {
  Graph& graph = context.graph;
  if (graph.opset() >= 23 && context.inputs[2].defined()) return rotary_embedding(context, op);
  const Value x = graph.as_here(context.inputs[0]);
  const Index width = x.shape.at(-1), half = width / op.heads / 2;
  std::vector<std::string> angles = rotary_angles(context, op);
  // The parts of a pair are halves of the last axis.
  const std::vector<Index> split = op.interleaved ? std::vector<Index>{0, 0, op.heads, half, 2}
                                                  : std::vector<Index>{0, 0, op.heads, 2 * half};
  if (op.interleaved) {
    const Graph::Sharing sharing(graph);
    for (std::string& angle : angles)
      angle = graph.add("Unsqueeze", {angle, graph.constant(std::vector<Index>{-1})});
  }
  const std::string heads = graph.add("Reshape", {x.name, graph.constant(split)});
  const std::vector<std::string> pair = graph.split_evenly(heads, 2, -1);
  const auto turned = [&](const char* combine, const std::string& a, const std::string& b) {
    return graph.add(combine, {graph.add("Mul", {a, angles[0]}), graph.add("Mul", {b, angles[1]})});
  };
  const std::string joined = graph.add(
      "Concat", {turned("Sub", pair[0], pair[1]), turned("Add", pair[1], pair[0])}, {{"axis", Index{-1}}});
  return context.result(graph.add("Reshape", {joined, graph.constant(std::vector<Index>{0, 0, width})}));
}

}  // namespace

// Operands of equal rank get the same axis order; others get Tandem's, where they broadcast from the last
// axis.
std::vector<Value> translate_by_name(const TranslationContext& context) {
  Graph& graph = context.graph;
  const Value& first = context.inputs[0];
  const bool alike =
      std::ranges::all_of(context.inputs, [&](const Value& x) { return x.rank() == first.rank(); });
  std::vector<std::string> names;
  for (const Value& x : context.inputs)
    names.push_back(alike ? graph.arranged(x, first.order).name : graph.as_here(x).name);
  const std::string y = graph.add(context.call.info->traits.onnx, std::move(names));
  return {alike ? context.result(y, first.order) : context.result(y)};
}

void add_elementwise_translations(TranslationTable& table) {
  add_translation(table, swiglu);
  add_translation(table, rotary);
  add_translation(table, translate<ops::Square, square>);
  add_translation(table, translate<ops::Rsqrt, rsqrt>);
  add_translation(table, translate<ops::LeakyRelu, leaky_relu>);
  add_translation(table, translate<ops::Elu, elu>);
  add_translation(table, translate<ops::Gelu, gelu>);
  add_translation(table, translate<ops::GeluTanh, gelu_tanh>);
  add_translation(table, translate<ops::Silu, silu>);
  add_translation(table, translate<ops::Softplus, softplus>);
  add_translation(table, translate<ops::Hardswish, hardswish>);
  add_translation(table, translate<ops::Hardsigmoid, hardsigmoid>);
  add_translation(table, translate<ops::Relu6, relu6>);
  add_translation(table, translate<ops::Clamp, clamp>);
  add_translation(table, translate<ops::AddScalar, add_scalar>);
  add_translation(table, translate<ops::MulScalar, mul_scalar>);
  add_translation(table, translate<ops::DivScalar, div_scalar>);
  add_translation(table, translate<ops::ScalarSub, scalar_sub>);
  add_translation(table, translate<ops::ScalarDiv, scalar_div>);
  add_translation(table, translate<ops::PowScalar, pow_scalar>);
  add_translation(table, prelu);
  table[&ops::Cast::info] = cast;
}

}  // namespace tandem::exporting
