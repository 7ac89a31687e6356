// Own f32 convolution kernels for AVX-512, for the shapes where they beat the library; the rule and its
// evidence are in conv_direct.cpp. They copy what they read into panels of 16 channels a pixel, with the
// padding written out, so that the inner loops see constant distances and no borders:
//   forward, input_gradient  outputs in registers, [pixels] × [16·n channels], one broadcast input a product;
//   filter_gradient          gradients in registers, [8 or 16 outputs] × [16·n inputs], summed over a block
//   of pixels.
// Sums run in an order that depends on the shape and the thread count only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "core/cpu/onednn.h"

namespace tandem::cpu {

class DirectConvolution {
 public:
  virtual ~DirectConvolution() = default;

  // All tensors f32. forward: (x, filter, bias or absent, y); input_gradient: (dy, filter, absent, dx);
  // filter_gradient: (x, dy, absent, dfilter).
  virtual void run(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                   bool accumulate) const = 0;
};

// nullptr where the library is the better choice, or the binary was compiled without AVX-512.
std::unique_ptr<DirectConvolution> direct_convolution(onednn::Pass pass, const onednn::Convolution& problem);

namespace detail {

// Brings a range of memory towards the second cache in even shares, while other work goes on: copying into
// panels would otherwise wait for memory with the arithmetic idle.
class Prefetch {
 public:
  Prefetch() = default;
  Prefetch(const float* from, Index floats, Index shares)
      : next_(reinterpret_cast<const char*>(from)),
        end_(next_ + static_cast<std::size_t>(std::max<Index>(floats, 0)) * sizeof(float)),
        share_(((end_ - next_) / kLine / std::max<Index>(shares, 1) + 1) * kLine) {}

  void advance() {
    const char* stop = std::min(next_ + share_, end_);
    for (; next_ < stop; next_ += kLine) __builtin_prefetch(next_, 0, 2);
  }

 private:
  static constexpr std::ptrdiff_t kLine = 64;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  std::ptrdiff_t share_ = 0;
};

std::unique_ptr<DirectConvolution> direct_filter_gradient(const onednn::Convolution& problem);
std::unique_ptr<DirectConvolution> winograd_convolution(onednn::Pass pass,
                                                        const onednn::Convolution& problem);
}  // namespace detail

}  // namespace tandem::cpu
