// Image kernels: rendering of 8-bit records.
#pragma once

#include "core/images.h"

namespace tandem {

struct ImageKernels {
  virtual ~ImageKernels() = default;

  // Renders records u8 [N,H,W,C] to images y [N,H',W',C] of any floating dtype, one ImageWindow of `windows`
  // per image: y = pixel·scale + offset, rounded once to f32 and then to y's dtype.
  virtual void render_images(const Tensor& records, const Tensor& windows, const ImageAffine& affine,
                             const Tensor& y) = 0;
};

}  // namespace tandem
