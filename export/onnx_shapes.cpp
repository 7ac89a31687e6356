#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/softmax_ops.h"
#include "export/onnx_translation.h"

namespace tandem::exporting {

namespace {

// Extents without leading ones.
std::span<const Index> without_leading_ones(const Shape& shape) {
  std::span<const Index> extents = shape.extents();
  while (extents.size() > 1 && extents[0] == 1) extents = extents.subspan(1);
  return extents;
}

// Extents for ONNX's Reshape. Dynamic extents, batch and sequence length, must stay in front; only axes of
// extent 1 may appear or vanish before them. Absent if they do not.
std::optional<std::vector<Index>> extents_of(const ops::Reshape& op, const FreeExtents& free) {
  const auto is_free = [&](Index extent) { return free.contains(extent); };
  const auto from = without_leading_ones(op.from), to = without_leading_ones(op.to);
  const auto free_from = std::ranges::count_if(from, is_free), free_to = std::ranges::count_if(to, is_free);
  std::vector<Index> extents(op.to.begin(), op.to.end());
  if (free_from == 0 && free_to == 0) return extents;
  const auto count = static_cast<std::size_t>(free_from);
  const bool follows = free_from == free_to && std::ranges::all_of(from.first(count), is_free) &&
                       std::ranges::equal(from.first(count), to.first(count));
  if (!follows) return {};
  // 0 copies the extent at the same index; -1 is inferred, and only one is allowed.
  const std::size_t moved = op.from.extents().size() - from.size(), begin = extents.size() - to.size();
  if (moved != begin && count > 1) return {};
  for (std::size_t i = 0; i < count; ++i) extents[begin + i] = moved == begin ? 0 : -1;
  return extents;
}

Value reshape(const TranslationContext& context, const ops::Reshape& op) {
  const auto extents = extents_of(op, context.graph.free());
  if (!extents)
    context.refuse(fmt::format("{} → {} does not keep the batch, or steps and batch, as the first axis",
                               to_string(op.from), to_string(op.to)));
  const Value x = context.graph.as_here(context.inputs[0]);
  return context.result(context.graph.add("Reshape", {x.name, context.graph.constant(*extents)}));
}

// No node: the same ONNX tensor with another axis order.
Value permute(const TranslationContext& context, const ops::Permute& op) {
  const Value& x = context.inputs[0];
  Value y = context.result(x.name, x.order);
  const auto last = op.order.begin() + x.rank();
  for (int& axis : y.order)
    axis = static_cast<int>(std::find(op.order.begin(), last, axis) - op.order.begin());
  return y;
}

Value concat(const TranslationContext& context, const ops::Concat& op) {
  const Value& first = context.inputs[0];
  std::vector<std::string> names;
  for (const Value& x : context.inputs) names.push_back(context.graph.arranged(x, first.order).name);
  return context.result(context.graph.add("Concat", names, {{"axis", first.axis_there(op.axis)}}),
                        first.order);
}

Value stack(const TranslationContext& context, const ops::Stack& op) {
  Graph& graph = context.graph;
  const std::string axis = graph.constant(std::vector<Index>{op.axis});
  std::vector<std::string> names;
  for (const Value& x : context.inputs)
    names.push_back(graph.add("Unsqueeze", {graph.as_here(x).name, axis}));
  return context.result(names.size() == 1 ? names[0]
                                          : graph.add("Concat", names, {{"axis", Index{op.axis}}}));
}

Value slice(const TranslationContext& context, const ops::Slice& op) {
  const Value& x = context.inputs[0];
  const ops::Window& window = op.window;
  const FreeExtents& free = context.graph.free();
  std::vector<Index> first, last, axes, step;
  bool follows = false;  // as many rows of a longer table as a free extent
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (window.small[axis] == window.large[axis]) continue;
    first.push_back(window.first[axis]);
    last.push_back(window.first[axis] + (window.small[axis] - 1) * window.step[axis] + 1);
    axes.push_back(x.axis_there(axis));
    step.push_back(window.step[axis]);
    follows = first.back() == 0 && step.back() == 1 && last.back() > 0 && free.contains(last.back()) &&
              last.size() == 1 && !free.is_made_of_free(window.large[axis]);
  }
  Graph& graph = context.graph;
  const std::string begin = graph.constant(first),
                    end = follows ? graph.extent(last[0]) : graph.constant(last);
  return context.result(graph.add("Slice", {x.name, begin, end, graph.constant(axes), graph.constant(step)}),
                        x.order);
}

// Skips pieces of extent 0.
std::vector<Value> split(const TranslationContext& context, const ops::Split& op) {
  const Value& x = context.inputs[0];
  std::vector<Index> extents = op.extents;
  std::erase(extents, Index{0});
  const std::vector<std::string> pieces =
      context.graph.add("Split", {x.name, context.graph.constant(extents)}, static_cast<int>(extents.size()),
                        {{"axis", x.axis_there(op.axis)}});
  std::vector<Value> outputs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < op.extents.size(); ++i)
    outputs.push_back(op.extents[i] == 0 ? Value{} : context.result(pieces[next++], x.order, i));
  return outputs;
}

Value pad(const TranslationContext& context, const ops::Pad& op) {
  const Value& x = context.inputs[0];
  const ops::Window& window = op.window;
  std::vector<Index> before, after;
  for (const int axis : x.order) {
    if (window.step[axis] != 1) context.refuse("padding between elements has no translation");
    before.push_back(window.first[axis]);
    after.push_back(window.large[axis] - window.small[axis] - window.first[axis]);
  }
  before.insert(before.end(), after.begin(), after.end());
  Graph& graph = context.graph;
  return context.result(graph.add("Pad", {x.name, graph.constant(before), graph.constant(op.value)}),
                        x.order);
}

// f32 factor that resizes `from` pixels to `to`, rounded down; the next larger value if rounding would lose a
// pixel.
double scale_to(const TranslationContext& context, Index from, Index to, double scale) {
  auto factor = static_cast<float>(scale);
  const auto made = [&] { return static_cast<Index>(std::floor(static_cast<float>(from) * factor)); };
  if (made() < to) factor = std::nextafter(factor, std::numeric_limits<float>::infinity());
  if (made() != to)
    context.refuse(
        fmt::format("a factor of {} that does not give {} pixels of {} has no translation", scale, to, from));
  return factor;
}

// Uses scales if the op has them. Otherwise, the size is the dynamic batch and the constant other extents.
Value resize2d(const TranslationContext& context, const ops::Resize2d& op) {
  Graph& graph = context.graph;
  const Value x = graph.with_channels_first(context.inputs[0]);
  const auto& options = op.options;
  std::string scales, size;
  if (!options.align_corners && (options.scale[0] > 0.0 || options.scale[1] > 0.0)) {
    std::vector<double> factors{1.0, 1.0};
    for (int axis = 0; axis < 2; ++axis) {
      const Index from = op.from[1 + axis], to = op.to[1 + axis];
      const double ratio = static_cast<double>(to) / static_cast<double>(from);
      factors.push_back(scale_to(context, from, to, options.scale[axis] > 0.0 ? options.scale[axis] : ratio));
    }
    scales = graph.constant(factors);
  } else {
    const std::string batch = graph.add("Shape", {x.name}, {{"start", Index{0}}, {"end", Index{1}}});
    size = graph.add("Concat", {batch, graph.constant(std::vector<Index>{op.to[3], op.to[1], op.to[2]})},
                     {{"axis", Index{0}}});
  }
  const bool nearest = options.mode == ResizeMode::nearest;
  Attributes attributes{{"coordinate_transformation_mode", nearest                 ? "asymmetric"
                                                           : options.align_corners ? "align_corners"
                                                                                   : "half_pixel"},
                        {"mode", nearest ? "nearest" : "linear"}};
  if (nearest) attributes.emplace_back("nearest_mode", "floor");
  return context.result(graph.add("Resize", {x.name, "", scales, size}, attributes), x.order);
}

Value along_axis(const TranslationContext& context, const char* name, int axis) {
  const Value& x = context.inputs[0];
  return context.result(context.graph.add(name, {x.name}, {{"axis", x.axis_there(axis)}}), x.order);
}
Value softmax(const TranslationContext& context, const ops::Softmax& op) {
  return along_axis(context, "Softmax", op.axis);
}
Value log_softmax(const TranslationContext& context, const ops::LogSoftmax& op) {
  return along_axis(context, "LogSoftmax", op.axis);
}

std::vector<Index> axes_of(const ops::ReduceGeometry& geometry) {
  std::vector<Index> axes;
  for (int axis = 0; axis < geometry.x_shape.rank(); ++axis)
    if (geometry.axes >> axis & 1U) axes.push_back(axis);
  return axes;
}

Value sum(const TranslationContext& context, const ops::Sum& op) {
  const Value x = context.graph.as_here(context.inputs[0]);
  return context.result(context.graph.add("ReduceSum", {x.name, context.graph.constant(axes_of(op.geometry))},
                                          {{"keepdims", Index{op.geometry.keep_axes}}}));
}
Value mean(const TranslationContext& context, const ops::Mean& op) {
  const Value x = context.graph.as_here(context.inputs[0]);
  return context.result(context.graph.reduced_mean(x.name, axes_of(op.geometry), op.geometry.keep_axes));
}

}  // namespace

void add_shape_translations(TranslationTable& table) {
  add_translation(table, reshape);
  add_translation(table, permute);
  add_translation(table, concat);
  add_translation(table, stack);
  add_translation(table, slice);
  add_translation(table, split);
  add_translation(table, pad);
  add_translation(table, resize2d);
  add_translation(table, softmax);
  add_translation(table, log_softmax);
  add_translation(table, sum);
  add_translation(table, mean);
}

}  // namespace tandem::exporting
