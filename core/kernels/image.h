// Image kernels: rendering of 8-bit records.
#pragma once

#include "core/images.h"

namespace tandem {

struct ImageKernels {
  virtual ~ImageKernels() = default;

  // Images y [N,H',W',C] of any floating dtype from records u8 [N,H,W,C], seen through `windows` (N of
  // ImageWindow): y = pixel·scale + offset, rounded to f32 once and then to y's dtype.
  virtual void render_images(const Tensor& records, const Tensor& windows, const ImageAffine& affine,
                             const Tensor& y) = 0;
};

}  // namespace tandem
