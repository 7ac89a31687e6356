#include "autograd/ops/conv_ops.h"
#include "autograd/ops/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/norm_ops.h"
#include "autograd/ops/pool_ops.h"
#include "export/onnx_translation.h"

namespace tandem::exporting {

namespace {

std::vector<Index> list(std::array<Index, 2> pair) { return {pair[0], pair[1]}; }
// Padding in the order top, left, bottom, right.
std::vector<Index> borders(std::array<Index, 2> padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

Attributes convolution(const Conv2dOptions& options, const Shape& filter) {
  return {{"dilations", list(options.dilation)},
          {"group", options.groups},
          {"kernel_shape", std::vector<Index>{filter[1], filter[2]}},
          {"pads", borders(options.padding)},
          {"strides", list(options.stride)}};
}

Value conv2d(const TranslationContext& context, const ops::Conv2d& op) {
  const auto& in = context.inputs;
  const Value x = context.graph.with_channels_first(in[0]);
  const Value filter = context.graph.with_channels_first(in[1]);
  return context.result(
      context.graph.add("Conv", {x.name, filter.name, in[2].name}, convolution(op.options, filter.shape)),
      x.order);
}

Value conv_transpose2d(const TranslationContext& context, const ops::ConvTranspose2d& op) {
  const auto& in = context.inputs;
  const Value x = context.graph.with_channels_first(in[0]);
  const Value filter = context.graph.with_channels_first(in[1]);
  Attributes attributes = convolution(op.options, filter.shape);
  attributes.emplace_back("output_padding", list(op.output_padding));
  return context.result(context.graph.add("ConvTranspose", {x.name, filter.name, in[2].name}, attributes),
                        x.order);
}

// Gemm takes two axes; more need MatMul with the transposed weight.
Value linear(const TranslationContext& context, const ops::Linear& op) {
  Graph& graph = context.graph;
  auto in = context.inputs;
  const Value x = graph.as_here(in[0]);
  for (std::size_t i = 1; op.outputs && i < in.size(); ++i) {
    if (!in[i].defined()) continue;
    const auto constant = [&](Index value) { return graph.constant(std::vector<Index>{value}); };
    const std::string rows =
        graph.add("Slice", {graph.as_here(in[i]).name, constant(op.outputs->first),
                            constant(op.outputs->first + op.outputs->count), constant(0)});
    in[i] = {rows, in[i].shape.with(0, op.outputs->count), same_order(in[i].rank())};
  }
  if (x.rank() == 2)
    return context.result(
        graph.add("Gemm", {x.name, graph.as_here(in[1]).name, in[2].name}, {{"transB", Index{1}}}));
  std::string y = graph.add("MatMul", {x.name, graph.arranged(in[1], {1, 0}).name});
  if (in[2].defined()) y = graph.add("Add", {y, in[2].name});
  return context.result(y);
}

Value matmul(const TranslationContext& context, const ops::Matmul& op) {
  const auto operand = [&](std::size_t i, bool transposed) {
    std::vector<int> order = same_order(context.inputs[i].rank());
    if (transposed) std::swap(order.back(), order[order.size() - 2]);
    return context.graph.arranged(context.inputs[i], order).name;
  };
  return context.result(
      context.graph.add("MatMul", {operand(0, op.transpose_a), operand(1, op.transpose_b)}));
}

// The weight, or a constant tensor if it is absent.
std::string weight_or(const TranslationContext& context, const Value& weight, double fallback,
                      std::span<const Index> extents) {
  return weight.defined() ? context.graph.as_here(weight).name : context.graph.filled(fallback, extents);
}

Value batch_norm(const TranslationContext& context, const ops::BatchNormInfer& op) {
  Graph& graph = context.graph;
  const auto& in = context.inputs;
  const Value x = graph.with_channels_first(in[0]);
  const Index channels[] = {x.shape.at(-1)};
  std::string y =
      graph.add("BatchNormalization",
                {x.name, weight_or(context, in[2], 1.0, channels), weight_or(context, in[3], 0.0, channels),
                 context.weight(op.statistics.mean).name, context.weight(op.statistics.var).name},
                {{"epsilon", op.options.eps}});
  if (in[1].defined()) y = graph.add("Add", {y, graph.with_channels_first(in[1]).name});
  if (op.options.relu) y = graph.add("Relu", {y});
  return context.result(y, x.order);
}

Value layer_norm(const TranslationContext& context, const ops::LayerNorm& op) {
  const auto& in = context.inputs;
  const Value x = context.graph.as_here(in[0]);
  const auto over = x.shape.extents().last(static_cast<std::size_t>(op.axes));
  return context.result(
      context.graph.add("LayerNormalization",
                        {x.name, weight_or(context, in[1], 1.0, over), weight_or(context, in[2], 0.0, over)},
                        {{"axis", Index{-op.axes}}, {"epsilon", op.eps}}));
}

// x·weight/√(mean x² + eps) over the last axis, of `width` features; composed before opset 23.
std::string rms_normalised(const TranslationContext& context, const std::string& x, const Value& weight,
                           double eps, Index width) {
  Graph& graph = context.graph;
  if (graph.opset() >= 23)
    return graph.add("RMSNormalization", {x, weight_or(context, weight, 1.0, std::array{width})},
                     {{"axis", Index{-1}}, {"epsilon", eps}});
  const std::string squares = graph.reduced_mean(graph.add("Mul", {x, x}), {-1}, /*keep_axes=*/true);
  const std::string root = graph.add("Sqrt", {graph.add("Add", {squares, graph.constant(eps)})});
  const std::string y = graph.add("Div", {x, root});
  return weight.defined() ? graph.add("Mul", {y, graph.as_here(weight).name}) : y;
}

Value rms_norm(const TranslationContext& context, const ops::RmsNorm& op) {
  const auto& in = context.inputs;
  const Value x = context.graph.as_here(in[0]);
  return context.result(rms_normalised(context, x.name, in[1], op.eps, x.shape.at(-1)));
}

std::vector<Value> residual_norm(const TranslationContext& context, const ops::ResidualNorm& op) {
  Graph& graph = context.graph;
  const auto& in = context.inputs;
  if (op.p > 0.0) context.refuse("drops out; export in evaluation mode");
  const Value x = graph.as_here(in[0]);
  const std::string sum = graph.add("Add", {x.name, graph.as_here(in[1]).name});
  const Index width[] = {x.shape.at(-1)};
  const std::string normed =
      op.rms ? rms_normalised(context, sum, in[2], op.eps, width[0])
             : graph.add("LayerNormalization",
                         {sum, weight_or(context, in[2], 1.0, width), weight_or(context, in[3], 0.0, width)},
                         {{"axis", Index{-1}}, {"epsilon", op.eps}});
  return {context.result(sum), context.result(normed, x.order, 1)};
}

// Instance norm of [N,groups,rest], since opset 17 has no group norm.
Value group_norm(const TranslationContext& context, const ops::GroupNorm& op) {
  Graph& graph = context.graph;
  const auto& in = context.inputs;
  const Value x = graph.with_channels_first(in[0]);
  const Index groups[] = {op.groups};
  std::string y = graph.add("Reshape", {x.name, graph.constant(std::vector<Index>{0, op.groups, -1})});
  y = graph.add("InstanceNormalization", {y, graph.filled(1.0, groups), graph.filled(0.0, groups)},
                {{"epsilon", op.eps}});
  std::vector<Index> extents, each(static_cast<std::size_t>(x.rank() - 1), 1);
  for (const int axis : x.order) extents.push_back(x.shape[axis]);
  each[0] = x.shape.at(-1);  // channels follow the batch
  y = graph.add("Reshape", {y, graph.constant(extents)});
  const std::string shape = graph.constant(each);
  if (in[1].defined()) y = graph.add("Mul", {y, graph.add("Reshape", {in[1].name, shape})});
  if (in[2].defined()) y = graph.add("Add", {y, graph.add("Reshape", {in[2].name, shape})});
  return context.result(y, x.order);
}

Attributes window(const Pool2dOptions& options) {
  return {{"kernel_shape", list(options.kernel)},
          {"pads", borders(options.padding)},
          {"strides", list(options.stride)}};
}

Value pooled(const TranslationContext& context, const std::string& op, const Attributes& attributes) {
  const Value x = context.graph.with_channels_first(context.inputs[0]);
  return context.result(context.graph.add(op, {x.name}, attributes), x.order);
}

Value max_pool2d(const TranslationContext& context, const ops::MaxPool2d& op) {
  return pooled(context, "MaxPool", window(op.options));
}

Value avg_pool2d(const TranslationContext& context, const ops::AvgPool2d& op) {
  Attributes attributes = window(op.options);
  attributes.emplace_back("count_include_pad", Index{op.options.count_include_pad});
  return pooled(context, "AveragePool", attributes);
}

// Means of `out` windows along `axis` of NCHW, by slices, since windows from ⌊i·extent/out⌋ to
// ⌈(i+1)·extent/out⌉ differ in length or overlap. The mean over a window of two axes is computed axis by
// axis.
std::string means_of_windows(Graph& graph, const std::string& x, int axis, Index extent, Index out) {
  if (extent == out) return x;
  std::vector<std::string> means;
  for (Index i = 0; i < out; ++i) {
    const auto list = [&](Index value) { return graph.constant(std::vector<Index>{value}); };
    const Index first = i * extent / out, last = ((i + 1) * extent + out - 1) / out;
    const std::string slice = graph.add("Slice", {x, list(first), list(last), list(axis)});
    means.push_back(graph.reduced_mean(slice, {axis}, /*keep_axes=*/true));
  }
  return graph.add("Concat", means, {{"axis", Index{axis}}});
}

Value adaptive_avg_pool2d(const TranslationContext& context, const ops::AdaptiveAvgPool2d& op) {
  if (op.out == std::array<Index, 2>{1, 1}) return pooled(context, "GlobalAveragePool", {});
  if (op.extent[0] % op.out[0] == 0 && op.extent[1] % op.out[1] == 0) {
    const std::array<Index, 2> kernel{op.extent[0] / op.out[0], op.extent[1] / op.out[1]};
    return pooled(context, "AveragePool", window({.kernel = kernel, .stride = kernel}));
  }
  const Value x = context.graph.with_channels_first(context.inputs[0]);
  std::string y = x.name;
  for (int axis = 0; axis < 2; ++axis)
    y = means_of_windows(context.graph, y, 2 + axis, op.extent[axis], op.out[axis]);
  return context.result(y, x.order);
}

// Rows of a table.
Value embedding(const TranslationContext& context, const ops::Embedding&) {
  const auto& in = context.inputs;
  return context.result(
      context.graph.add("Gather", {context.graph.as_here(in[0]).name, context.graph.as_here(in[1]).name},
                        {{"axis", Index{0}}}));
}

Value global_avg_pool2d(const TranslationContext& context, const ops::GlobalAvgPool2d&) {
  const Value y = pooled(context, "GlobalAveragePool", {});
  return context.result(context.graph.add("Flatten", {y.name}, {{"axis", Index{1}}}));
}

}  // namespace

void add_layer_translations(TranslationTable& table) {
  add_translation(table, conv2d);
  add_translation(table, conv_transpose2d);
  add_translation(table, linear);
  add_translation(table, matmul);
  add_translation(table, batch_norm);
  add_translation(table, layer_norm);
  add_translation(table, rms_norm);
  add_translation(table, residual_norm);
  add_translation(table, group_norm);
  add_translation(table, max_pool2d);
  add_translation(table, avg_pool2d);
  add_translation(table, adaptive_avg_pool2d);
  add_translation(table, global_avg_pool2d);
  add_translation(table, embedding);
}

}  // namespace tandem::exporting
