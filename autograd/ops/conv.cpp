#include "autograd/ops/conv.h"

#include <algorithm>
#include <string_view>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/conv_ops.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/shape.h"
#include "core/kernels/conv.h"
#include "core/kernels/shape.h"

namespace tandem {

namespace ops {

namespace {

void check_four_axes(const OpInfo& info, const char* name, const Tensor& x) {
  require(x.defined(), info.name, "{} must be given", name);
  require(is_floating(x.dtype()), info.name, "{} must be floating, got {}", name, to_string(x));
  require(x.rank() == 4, info.name, "{} must have 4 axes, got {}", name, to_string(x));
}

void check_options(const OpInfo& info, const Conv2dOptions& o) {
  require(o.stride[0] >= 1 && o.stride[1] >= 1, info.name, "stride must be at least 1, got [{},{}]",
          o.stride[0], o.stride[1]);
  require(o.padding[0] >= 0 && o.padding[1] >= 0, info.name, "padding must not be negative, got [{},{}]",
          o.padding[0], o.padding[1]);
  require(o.dilation[0] >= 1 && o.dilation[1] >= 1, info.name, "dilation must be at least 1, got [{},{}]",
          o.dilation[0], o.dilation[1]);
  require(o.groups >= 1, info.name, "groups must be at least 1, got {}", o.groups);
}

// A filter [O,KH,KW,I/groups], transposed [I,KH,KW,O/groups]: groups must divide its first axis.
void check_filter(const OpInfo& info, const Tensor& filter, const Conv2dOptions& o) {
  check_four_axes(info, "filter", filter);
  require(filter.size(1) >= 1 && filter.size(2) >= 1, info.name, "filter {} has an empty kernel",
          to_string(filter.shape()));
  require(filter.size(0) % o.groups == 0, info.name,
          "filter {} has {} outer channels, which {} groups do not divide", to_string(filter.shape()),
          filter.size(0), o.groups);
}

void check_bias(const OpInfo& info, const Tensor& bias, Index channels) {
  if (!bias.defined()) return;
  require(is_floating(bias.dtype()) && bias.shape() == Shape{channels}, info.name,
          "bias must be floating [{}], got {}", channels, to_string(bias));
}

// Output extent of a convolution along axis `axis` (0: height).
Index out_extent(Index extent, Index kernel, const Conv2dOptions& o, int axis) {
  const Index reach = extent + 2 * o.padding[axis] - o.dilation[axis] * (kernel - 1) - 1;
  return reach < 0 ? 0 : reach / o.stride[axis] + 1;
}

void require_fit(const OpInfo& info, Index extent, Index kernel, const Conv2dOptions& o, int axis) {
  require(extent + 2 * o.padding[axis] >= o.dilation[axis] * (kernel - 1) + 1, info.name,
          "kernel {} with dilation {} is larger than {} {} with padding {}", kernel, o.dilation[axis],
          axis == 0 ? "height" : "width", extent, o.padding[axis]);
}

Shape conv_shape(const OpInfo& info, const Tensor& x, const Tensor& filter, const Conv2dOptions& o) {
  check_options(info, o);
  check_four_axes(info, "x", x);
  check_filter(info, filter, o);
  require(filter.size(3) * o.groups == x.size(3), info.name,
          "filter {} expects {} input channels{}, input is {}", to_string(filter.shape()),
          filter.size(3) * o.groups, o.groups == 1 ? "" : " in all groups", to_string(x.shape()));
  for (int axis = 0; axis < 2; ++axis) require_fit(info, x.size(1 + axis), filter.size(1 + axis), o, axis);
  return {x.size(0), out_extent(x.size(1), filter.size(1), o, 0), out_extent(x.size(2), filter.size(2), o, 1),
          filter.size(0)};
}

// Whether the filter was cast on the tape (`precision.wgrad=lower`): its gradient is then rounded to its type
// anyway, and some devices write that type faster.
bool is_rounded_with(const Tensor& filter, const Needs& needs) {
  const Node* const node = node_of(filter);
  return !needs.create_graph() && node && std::string_view(node->info().name) == Cast::info.name &&
         node->outputs[filter.edge().output].dtype == filter.dtype();
}

// dy must be the output of a convolution of an image of `extent`, or its upper left part: a transposed
// convolution with an output padding of a stride or more has fewer inputs than the convolution of its output
// has outputs.
void check_gradient(const OpInfo& info, const Tensor& dy, std::array<Index, 2> extent,
                    std::array<Index, 2> kernel, const Conv2dOptions& o) {
  for (int axis = 0; axis < 2; ++axis) {
    require_fit(info, extent[axis], kernel[axis], o, axis);
    const Index expected = out_extent(extent[axis], kernel[axis], o, axis);
    require(dy.size(1 + axis) <= expected, info.name, "an image of [{},{}] gives {} {}, dy is {}", extent[0],
            extent[1], axis == 0 ? "height" : "width", expected, to_string(dy.shape()));
  }
}

// The upper left part of y with the extent of `like`.
Tensor cut_to(Tensor y, const Tensor& like) {
  for (int axis = 1; axis <= 2; ++axis) {
    if (y.size(axis) != like.size(axis)) y = slice(y, axis, 0, like.size(axis));
  }
  return y;
}

Index pixels_of(const Tensor& x) { return x.shape().product(0, 3); }
Index taps_of(const Tensor& filter) { return filter.size(1) * filter.size(2); }

}  // namespace

ProductSizes Conv2d::products(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Tensor &x = inputs[0], &filter = inputs[1];
  const Index groups = x.size(3) / filter.size(3), taps = taps_of(filter);
  return {ProductSize{.m = pixels_of(outputs[0]),
                      .n = filter.size(0) / groups,
                      .k = taps * filter.size(3),
                      .count = groups,
                      .taps = taps}};
}

Result Conv2d::forward(Context& context, ConvSaved& saved, const ConvInputs& in) const {
  const Shape shape = conv_shape(info, in.x, in.filter, options);
  check_bias(info, in.bias, in.filter.size(0));
  const Tensor y = context.empty(shape);
  saved = {in.x, in.filter};
  if (sums.wanted() && !in.bias.defined()) {
    if (const Tensor given = context.backend.conv().conv2d_with_sums(in.x, in.filter, y, options);
        given.defined()) {
      sums.set(given);
      return {y};
    }
  }
  context.backend.conv().conv2d(in.x, in.filter, in.bias, y, options);
  return {y};
}

ConvInputs Conv2d::backward(const ConvSaved& saved, const Result& dy, const Needs& needs) const {
  ConvInputs result;
  const auto& [x, filter] = saved;
  if (needs[1])
    result.filter = conv2d_filter_gradient(x, dy.y, {filter.size(1), filter.size(2)}, options, needs.sink(1),
                                           is_rounded_with(filter, needs));
  if (needs[2]) result.bias = bias_gradient(dy.y, needs.sink(2));
  if (needs[0])
    result.x = conv2d_input_gradient(dy.y, filter, {x.size(1), x.size(2)}, options, needs.sink(0));
  return result;
}

ProductSizes Conv2dInputGradient::products(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Tensor &dy = inputs[0], &filter = inputs[1];
  const Index groups = outputs[0].size(3) / filter.size(3);
  return {ProductSize{.m = pixels_of(dy),
                      .n = taps_of(filter) * filter.size(3),
                      .k = filter.size(0) / groups,
                      .count = groups}};
}

ProductSizes Conv2dFilterGradient::products(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Tensor &x = inputs[0], &dy = inputs[1], &filter = outputs[0];
  const Index groups = x.size(3) / filter.size(3);
  return {ProductSize{.m = filter.size(0) / groups,
                      .n = taps_of(filter) * filter.size(3),
                      .k = pixels_of(dy),
                      .count = groups}};
}

InputGradient Conv2dInputGradient::forward(Context& context, In& saved, const In& in) const {
  check_options(info, options);
  check_four_axes(info, "dy", in.dy);
  check_filter(info, in.filter, options);
  require(in.dy.size(3) == in.filter.size(0), info.name, "filter {} has {} output channels, dy is {}",
          to_string(in.filter.shape()), in.filter.size(0), to_string(in.dy.shape()));
  check_gradient(info, in.dy, extent, {in.filter.size(1), in.filter.size(2)}, options);
  const GradOutput dx =
      context.destination({in.dy.size(0), extent[0], extent[1], in.filter.size(3) * options.groups});
  context.backend.conv().conv2d_input_gradient(in.dy, in.filter, dx.tensor, options, dx.accumulate);
  saved = {in.dy, in.filter};
  return {dx.tensor};
}

Conv2dInputGradient::In Conv2dInputGradient::backward(const In& saved, const InputGradient& ddx,
                                                      const Needs& needs) const {
  In result;
  const auto& [dy, filter] = saved;
  if (needs[0]) result.dy = cut_to(conv2d(ddx.dx, filter, {}, options), dy);
  if (needs[1])
    result.filter =
        conv2d_filter_gradient(ddx.dx, dy, {filter.size(1), filter.size(2)}, options, needs.sink(1));
  return result;
}

Conv2dFilterGradient::Out Conv2dFilterGradient::forward(Context& context, In& saved, const In& in) const {
  check_options(info, options);
  check_four_axes(info, "x", in.x);
  check_four_axes(info, "dy", in.dy);
  require(in.x.size(0) == in.dy.size(0), info.name, "x {} and dy {} differ in batch", to_string(in.x.shape()),
          to_string(in.dy.shape()));
  require(in.x.size(3) % options.groups == 0 && in.dy.size(3) % options.groups == 0, info.name,
          "{} groups do not divide the channels of x {} and dy {}", options.groups, to_string(in.x.shape()),
          to_string(in.dy.shape()));
  check_gradient(info, in.dy, {in.x.size(1), in.x.size(2)}, kernel, options);
  const Shape whole{in.dy.size(3), kernel[0], kernel[1], in.x.size(3) / options.groups};
  const GradOutput dfilter = context.destination(whole, rounded ? context.dtype : wide_of(context.dtype));
  context.backend.conv().conv2d_filter_gradient(in.x, in.dy, dfilter.tensor, options, dfilter.accumulate);
  saved = {in.x, in.dy};
  return {dfilter.tensor};
}

Conv2dFilterGradient::In Conv2dFilterGradient::backward(const In& saved, const Out& ddfilter,
                                                        const Needs& needs) const {
  In result;
  const Tensor& w = ddfilter.dfilter;
  const auto& [x, dy] = saved;
  if (needs[0]) result.x = conv2d_input_gradient(dy, w, {x.size(1), x.size(2)}, options);
  if (needs[1]) result.dy = cut_to(conv2d(x, w, {}, options), dy);
  return result;
}

Result ConvTranspose2d::forward(Context& context, ConvSaved& saved, const ConvInputs& in) const {
  check_options(info, options);
  check_four_axes(info, "x", in.x);
  check_filter(info, in.filter, options);
  require(in.filter.size(0) == in.x.size(3), info.name, "filter {} expects {} input channels, input is {}",
          to_string(in.filter.shape()), in.filter.size(0), to_string(in.x.shape()));
  const Index channels = in.filter.size(3) * options.groups;
  check_bias(info, in.bias, channels);
  std::array<Index, 2> extent{};
  for (int axis = 0; axis < 2; ++axis) {
    const Index largest = std::max(options.stride[axis], options.dilation[axis]);
    require(output_padding[axis] >= 0 && output_padding[axis] < largest, info.name,
            "output padding must lie in [0, max(stride, dilation)) = [0, {}), got {}", largest,
            output_padding[axis]);
    extent[axis] = (in.x.size(1 + axis) - 1) * options.stride[axis] - 2 * options.padding[axis] +
                   options.dilation[axis] * (in.filter.size(1 + axis) - 1) + output_padding[axis] + 1;
    require(extent[axis] >= 1, info.name, "padding {} leaves {} {} of input {} and filter {}",
            options.padding[axis], axis == 0 ? "height" : "width", extent[axis], to_string(in.x.shape()),
            to_string(in.filter.shape()));
  }
  const Tensor y = context.empty({in.x.size(0), extent[0], extent[1], channels});
  if (in.bias.defined()) {
    // The product is added to the bias, so that the sum is rounded once.
    const Tensor bias = in.bias.dtype() == y.dtype() ? in.bias : context.converted(in.bias, y.dtype());
    StridedView repeated;
    repeated.strides[1] = 1;
    const Shape rows{y.numel() / std::max<Index>(channels, 1), channels};
    context.backend.shape().strided_copy(bias, repeated, y, {0, rows.strides()}, rows);
  }
  context.backend.conv().conv2d_input_gradient(in.x, in.filter, y, options, in.bias.defined());
  saved = {in.x, in.filter};
  return {y};
}

ConvInputs ConvTranspose2d::backward(const ConvSaved& saved, const Result& dy, const Needs& needs) const {
  ConvInputs result;
  const auto& [x, filter] = saved;
  if (needs[0]) result.x = cut_to(conv2d(dy.y, filter, {}, options), x);
  if (needs[1])
    result.filter = conv2d_filter_gradient(dy.y, x, {filter.size(1), filter.size(2)}, options, needs.sink(1),
                                           is_rounded_with(filter, needs));
  if (needs[2]) result.bias = bias_gradient(dy.y, needs.sink(2));
  return result;
}

}  // namespace ops

Tensor conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Conv2dOptions& options,
              Tensor* sums) {
  if (sums) *sums = {};
  return apply(ops::Conv2d{options, ops::CallResult(sums)}, {x, filter, bias}).y;
}

Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& filter, std::array<Index, 2> extent,
                             const Conv2dOptions& options, const GradOutput* sink) {
  return apply(ops::Conv2dInputGradient{options, extent}, {dy, filter}, sink).dx;
}

Tensor conv2d_filter_gradient(const Tensor& x, const Tensor& dy, std::array<Index, 2> kernel,
                              const Conv2dOptions& options, const GradOutput* sink, bool rounded) {
  return apply(ops::Conv2dFilterGradient{options, kernel, rounded}, {x, dy}, sink).dfilter;
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& filter, const Tensor& bias,
                        const Conv2dOptions& options, std::array<Index, 2> output_padding) {
  return apply(ops::ConvTranspose2d{options, output_padding}, {x, filter, bias}).y;
}

Tensor conv1d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Conv1dOptions& options) {
  require(x.defined() && x.rank() == 3, "conv1d", "x must be [N,L,C], got {}", to_string(x));
  require(filter.defined() && filter.rank() == 3, "conv1d", "filter must be [O,K,C/groups], got {}",
          to_string(filter));
  require(options.stride >= 1 && options.dilation >= 1 && options.padding >= 0 && options.groups >= 1,
          "conv1d",
          "stride, dilation and groups must be at least 1 and padding at least 0, got {}, {}, {} and {}",
          options.stride, options.dilation, options.groups, options.padding);
  require(filter.size(2) * options.groups == x.size(2), "conv1d",
          "filter {} expects {} input channels, input is {}", to_string(filter.shape()),
          filter.size(2) * options.groups, to_string(x.shape()));
  require(x.size(1) + 2 * options.padding >= options.dilation * (filter.size(1) - 1) + 1, "conv1d",
          "kernel {} with dilation {} is larger than length {} with padding {}", filter.size(1),
          options.dilation, x.size(1), options.padding);
  const Tensor image = reshape(x, Shape{x.size(0), 1, x.size(1), x.size(2)});
  const Tensor kernel = reshape(filter, Shape{filter.size(0), 1, filter.size(1), filter.size(2)});
  const Tensor y = conv2d(image, kernel, bias,
                          {.stride = {1, options.stride},
                           .padding = {0, options.padding},
                           .dilation = {1, options.dilation},
                           .groups = options.groups});
  return reshape(y, Shape{y.size(0), y.size(2), y.size(3)});
}

OpInfos conv_ops() {
  return infos_of<ops::Conv2d, ops::Conv2dInputGradient, ops::Conv2dFilterGradient, ops::ConvTranspose2d>();
}

}  // namespace tandem
