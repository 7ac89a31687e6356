// Own convolution kernels, for AVX-512 and AVX2, where core/cpu/conv_choice.h prefers them to the library.
// They sum in f32 and round results once as they are stored. 16-bit images and filters are widened as they
// are copied; bf16 stays as it is where an instruction multiplies pairs of it. What they read is copied into
// panels of 16 channels a pixel, with the padding written out, so that the inner loops see constant distances
// and no borders:
//   forward, input_gradient  outputs in registers, [pixels] × [16·n channels], one broadcast input a product;
//   filter_gradient          gradients in registers, [some outputs] × [16·n inputs], summed over a block of
//                            pixels.
// Sums run in an order that depends on the shape and the number of threads that was asked for only.
#pragma once

#include <memory>

#include "core/cpu/conv_choice.h"
#include "core/cpu/kernels/moments.h"
#include "core/cpu/onednn.h"

namespace tandem::cpu::TANDEM_LEVEL {

class DirectConvolution {
 public:
  virtual ~DirectConvolution() = default;

  // forward: (x, filter, bias or absent, y); input_gradient: (dy, filter, absent, dx); filter_gradient: (x,
  // dy, absent, dfilter). In the problem's dtype, but bias and dfilter f32. `accumulate` adds before
  // rounding. `moments`, in forward, are those of what is written.
  virtual void run(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate,
                   ChannelMoments* moments = nullptr) const = 0;
};

// For a choice of `direct`, `winograd` or `depthwise`: a problem whose dtype is f32, f16 or bf16 and whose
// result is of that dtype, f32 for filter_gradient.
std::unique_ptr<DirectConvolution> own_convolution(ConvAlgorithm algorithm, onednn::Pass pass,
                                                   const onednn::Convolution& problem);

namespace detail {

// Kernel<S> for the storage type S of the images.
template <template <class> class Kernel, class... Arguments>
std::unique_ptr<DirectConvolution> make_for_storage(DType dtype, const Arguments&... arguments) {
  if (dtype == DType::f16) return std::make_unique<Kernel<Half>>(arguments...);
  if (dtype == DType::bf16) return std::make_unique<Kernel<BFloat16>>(arguments...);
  return std::make_unique<Kernel<float>>(arguments...);
}

std::unique_ptr<DirectConvolution> direct_filter_gradient(const onednn::Convolution& problem);
std::unique_ptr<DirectConvolution> winograd_convolution(onednn::Pass pass,
                                                        const onednn::Convolution& problem);
std::unique_ptr<DirectConvolution> depthwise_convolution(onednn::Pass pass,
                                                         const onednn::Convolution& problem);
std::unique_ptr<DirectConvolution> depthwise_filter_gradient(const onednn::Convolution& problem);
}  // namespace detail

}  // namespace tandem::cpu::TANDEM_LEVEL
