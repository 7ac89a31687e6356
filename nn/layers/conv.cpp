#include "nn/layers/conv.h"

#include "core/error.h"
#include "nn/layers/batch_norm.h"

namespace tandem::nn {

namespace {

void check_channels(const char* where, Index in_channels, Index out_channels, Index groups) {
  require(in_channels > 0 && out_channels > 0 && groups > 0, where,
          "channels and groups must be positive, got {} → {} in {} groups", in_channels, out_channels,
          groups);
  require(in_channels % groups == 0 && out_channels % groups == 0, where,
          "{} groups must divide both numbers of channels, {} → {}", groups, in_channels, out_channels);
}

void check_extents(const char* where, std::array<Index, 2> kernel, const ConvOptions& options) {
  for (int axis = 0; axis < 2; ++axis) {
    require(kernel[axis] > 0 && options.stride[axis] > 0 && options.dilation[axis] > 0 &&
                options.padding[axis] >= 0,
            where, "kernel {}, stride {} and dilation {} must be positive, padding {} not negative",
            kernel[axis], options.stride[axis], options.dilation[axis], options.padding[axis]);
  }
}

std::string pair_text(std::array<Index, 2> pair) {
  return pair[0] == pair[1] ? fmt::format("{}", pair[0]) : fmt::format("{}×{}", pair[0], pair[1]);
}

// Differences from the plain convolution: ", stride 2, padding 3".
std::string extras(const Conv2dOptions& options, bool bias) {
  std::string text;
  if (options.stride != std::array<Index, 2>{1, 1}) text += ", stride " + pair_text(options.stride);
  if (options.padding != std::array<Index, 2>{0, 0}) text += ", padding " + pair_text(options.padding);
  if (options.dilation != std::array<Index, 2>{1, 1}) text += ", dilation " + pair_text(options.dilation);
  if (options.groups != 1) text += fmt::format(", {} groups", options.groups);
  if (!bias) text += ", no bias";
  return text;
}

}  // namespace

Conv2d::Conv2d(Index in_channels, Index out_channels, std::array<Index, 2> kernel, const ConvOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups} {
  check_channels("conv2d", in_channels, out_channels, options.groups);
  check_extents("conv2d", kernel, options);
  const Shape shape{out_channels, kernel[0], kernel[1], in_channels / options.groups};
  weight_ = add_parameter("weight", new_weight(shape, options.init, ParameterLayout::filter));
  if (options.bias) bias_ = add_parameter("bias", new_bias(out_channels, shape, options.init));
}

Tensor Conv2d::convolve(const Tensor& x, Tensor* sums) {
  return conv2d(x, weight_.tensor(), tensor_if_defined(bias_), options_, sums);
}

Tensor Conv2d::forward(const Tensor& x) { return convolve(x, nullptr); }

Tensor Conv2d::operator()(const Tensor& x, Tensor* sums) {
  return observed([&] { return convolve(x, sums); });
}

std::string Conv2d::describe() const {
  const Shape& filter = weight_.value().shape();
  return fmt::format("Conv2d({} → {}, {}×{}{})", filter[3] * options_.groups, filter[0], filter[1], filter[2],
                     extras(options_, bias_.defined()));
}

Conv1d::Conv1d(Index in_channels, Index out_channels, Index kernel, const Conv1dLayerOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups} {
  check_channels("conv1d", in_channels, out_channels, options.groups);
  check_extents(
      "conv1d", {kernel, 1},
      {.stride = {options.stride, 1}, .padding = {options.padding, 0}, .dilation = {options.dilation, 1}});
  const Shape shape{out_channels, kernel, in_channels / options.groups};
  weight_ = add_parameter("weight", new_weight(shape, options.init, ParameterLayout::filter1d));
  if (options.bias) bias_ = add_parameter("bias", new_bias(out_channels, shape, options.init));
}

Tensor Conv1d::forward(const Tensor& x) {
  return conv1d(x, weight_.tensor(), tensor_if_defined(bias_), options_);
}

std::string Conv1d::describe() const {
  const Shape& filter = weight_.value().shape();
  const Conv2dOptions as_2d{{options_.stride, options_.stride},
                            {options_.padding, options_.padding},
                            {options_.dilation, options_.dilation},
                            options_.groups};
  return fmt::format("Conv1d({} → {}, {}{})", filter[2] * options_.groups, filter[0], filter[1],
                     extras(as_2d, bias_.defined()));
}

ConvTranspose2d::ConvTranspose2d(Index in_channels, Index out_channels, std::array<Index, 2> kernel,
                                 const ConvTransposeOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups},
      output_padding_(options.output_padding) {
  check_channels("conv_transpose2d", in_channels, out_channels, options.groups);
  check_extents("conv_transpose2d", kernel, options);
  const Shape shape{in_channels, kernel[0], kernel[1], out_channels / options.groups};
  weight_ = add_parameter("weight", new_weight(shape, options.init, ParameterLayout::transposed_filter));
  if (options.bias) bias_ = add_parameter("bias", new_bias(out_channels, shape, options.init));
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight_.tensor(), tensor_if_defined(bias_), options_, output_padding_);
}

std::string ConvTranspose2d::describe() const {
  const Shape& filter = weight_.value().shape();
  return fmt::format("ConvTranspose2d({} → {}, {}×{}{})", filter[0], filter[3] * options_.groups, filter[1],
                     filter[2], extras(options_, bias_.defined()));
}

Tensor conv_norm(Conv2d& conv, BatchNorm& norm, const Tensor& x, const std::function<Tensor()>& residual) {
  Tensor sums;
  const Tensor y = conv(x, norm.training() ? &sums : nullptr);
  return norm(y, residual ? residual() : Tensor{}, sums);
}

}  // namespace tandem::nn
