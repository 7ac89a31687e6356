#include "tasks/image_format.h"

#include <optional>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "autograd/ops/conv_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"

namespace tandem::tasks {

namespace {

// The engines that cuDNN 9.19 puts first on an H100 load the channels of 16-bit images one by one where there
// are 1 or 3, and 4 at a time where there are 4 (its knob LDGA). 8 would be loaded at once too, but twice the
// bytes and products, most of them zeros.
constexpr Index kChannelMultiple = 4;

Index padded(Index channels) {
  return (channels + kChannelMultiple - 1) / kChannelMultiple * kChannelMultiple;
}

// In which type the first convolution multiplies.
class FirstConvolution final : public OpObserver {
 public:
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs, std::span<const Tensor>) override {
    if (&info == &ops::Conv2d::info && !dtype) dtype = inputs[0].dtype();
  }
  std::optional<DType> dtype;
};

std::optional<DType> first_convolution(nn::Module& model, const amp::Plan& precision, const Shape& sample) {
  FirstConvolution found;
  const NoGrad no_grad;
  const nn::ModeScope evaluation(model, false);
  const amp::Autocast autocast(precision);
  const ObserverScope observed(found);
  model(Tensor::empty(sample.inserted(0, 0)));  // shapes and types need no samples
  return found.dtype;
}

}  // namespace

ImageFormat image_format(nn::Module& model, const amp::Plan& precision, const Shape& sample, Device device,
                         DType dtype) {
  if (device.type == DeviceType::cpu || sample.rank() != 3 || dtype != DType::f32) return {};
  const auto multiplied = first_convolution(model, precision, sample);
  if (!multiplied || !is_16bit(*multiplied) || !model.take_padded_images(padded(sample[2]))) return {};
  return {.dtype = *multiplied, .channel_multiple = kChannelMultiple};
}

Tensor in_format(const Tensor& images, const ImageFormat& format) {
  if (!is_floating(images.dtype())) return images;
  const NoGrad no_grad;
  const Tensor rounded = cast(images, format.dtype);
  const Index channels = images.size(-1), multiple = format.channel_multiple;
  const Index missing = (channels + multiple - 1) / multiple * multiple - channels;
  return missing == 0 ? rounded : pad(rounded, {0, 0, 0, 0}, {0, 0, 0, missing});
}

}  // namespace tandem::tasks
