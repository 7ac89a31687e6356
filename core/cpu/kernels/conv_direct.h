// Own convolution kernels for AVX-512 and AVX2. core/cpu/conv_choice.h decides between them and oneDNN.
// Kernels sum in f32 and round once on store. 16-bit images and filters are widened on copy, except bf16 on
// CPUs with an instruction for products of bf16 pairs. Inputs are copied into panels of 16 channels per pixel
// with explicit padding, so that the inner loops have constant strides and no border cases:
//   forward, input_gradient  outputs in registers, [pixels] × [16·n channels], one broadcast input per
//   product; filter_gradient          gradients in registers, [some outputs] × [16·n inputs], summed over a
//   block of
//                            pixels.
// The reduction order depends only on the shape and the requested number of threads.
#pragma once

#include <memory>

#include "core/cpu/conv_choice.h"
#include "core/cpu/kernels/moments.h"
#include "core/cpu/onednn.h"

namespace tandem::cpu::TANDEM_LEVEL {

class DirectConvolution {
 public:
  virtual ~DirectConvolution() = default;

  // Arguments: forward (x, filter, bias or absent, y); input_gradient (dy, filter, absent, dx);
  // filter_gradient (x, dy, absent, dfilter). All have the problem's dtype except bias and dfilter, which are
  // f32. `accumulate` adds before rounding. `moments` (forward only) are those of the stored output.
  virtual void run(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate,
                   ChannelMoments* moments = nullptr) const = 0;
};

// Creates the kernel of an own algorithm. The problem's dtype is f32, f16 or bf16; its
// result has the same dtype, or f32 for filter_gradient.
std::unique_ptr<DirectConvolution> own_convolution(ConvAlgorithm algorithm, onednn::Pass pass,
                                                   const onednn::Convolution& problem);

namespace detail {

// Instantiates Kernel<S> for the storage type S of the images.
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
// Level `amx`.
std::unique_ptr<DirectConvolution> amx_convolution(onednn::Pass pass, const onednn::Convolution& problem);
std::unique_ptr<DirectConvolution> amx_filter_gradient(const onednn::Convolution& problem);
}  // namespace detail

}  // namespace tandem::cpu::TANDEM_LEVEL
