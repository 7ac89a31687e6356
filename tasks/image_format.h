// The form in which the loader gives images to a model: that of its first convolution's operands.
#pragma once

#include "amp/autocast.h"
#include "core/tensor.h"
#include "nn/module.h"

namespace tandem::tasks {

struct ImageFormat {
  DType dtype = DType::f32;
  Index channel_multiple = 1;  // images get channels of zeros up to a multiple of this
};

// How training on `device` under `precision` takes images of `sample`, [H,W,C] of `dtype`; the model is ready
// for them from then on. f32 as they are, unless all that happens to them is that a convolution casts them to
// a 16-bit type: then the loader's kernel writes that type, by the same one rounding, and pads the channels.
// A CPU gains nothing by that. The model lies on the CPU still.
ImageFormat image_format(nn::Module& model, const amp::Plan& precision, const Shape& sample, Device device,
                         DType dtype = DType::f32);

// f32 images [N,H,W,C], or any samples where nothing is to be done, in that form. Indices stay as they are.
Tensor in_format(const Tensor& images, const ImageFormat& format);

}  // namespace tandem::tasks
