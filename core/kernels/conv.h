// Convolution kernels: images [N,H,W,C], filters [O,KH,KW,I/groups].
#pragma once

#include "core/op_options.h"
#include "core/tensor.h"

namespace tandem {

struct ConvKernels {
  virtual ~ConvKernels() = default;

  virtual void conv2d(const Tensor& x, const Tensor& filter, const Tensor& bias, const Tensor& y,
                      const Conv2dOptions& options) = 0;
  // conv2d that also returns Σ y and Σ y² over all positions, f32 or f64 [2,O], without a pass over y.
  // Returns an absent tensor, and leaves y undefined, if the device does not support it or would be slower.
  // The variance Σ y²/n - (Σ y/n)² loses about as many digits as (mean/deviation)² has.
  virtual Tensor conv2d_with_sums(const Tensor& x, const Tensor& filter, const Tensor& y,
                                  const Conv2dOptions& options) = 0;
  virtual void conv2d_input_gradient(const Tensor& dy, const Tensor& filter, const Tensor& dx,
                                     const Conv2dOptions& options, bool accumulate = false) = 0;
  virtual void conv2d_filter_gradient(const Tensor& x, const Tensor& dy, const Tensor& dfilter,
                                      const Conv2dOptions& options, bool accumulate = false) = 0;
};

template <class Convolution>
Convolution problem_of(const Tensor& x, const Tensor& filter, const Tensor& y, const Conv2dOptions& options) {
  return {.batch = x.size(0),
          .height = x.size(1),
          .width = x.size(2),
          .channels = x.size(3),
          .out_height = y.size(1),
          .out_width = y.size(2),
          .out_channels = y.size(3),
          .kernel_height = filter.size(1),
          .kernel_width = filter.size(2),
          .options = options};
}

}  // namespace tandem
