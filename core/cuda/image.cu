// Rendering of 8-bit records in one pass that reads each visible byte once and writes the images once.
//
// A thread computes packs of 16 bytes of output, adjacent along [W',C]; packs may span pixels, rows and
// images. The grid's width is a multiple of the channels, so a thread sees the same channels in all its packs
// and keeps their scale and offset in registers.
#include <cuda_runtime.h>

#include <numeric>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/kernels/image.h"
#include "core/kernels/image_formulas.h"

namespace tandem::cuda {

namespace {

struct Geometry {
  std::int32_t height, width;          // of the records
  std::int32_t out_height, out_width;  // of the images
  std::int32_t channels;
};

struct Input {
  const std::uint8_t* __restrict__ records;
  const ImageWindow* __restrict__ windows;
  const float* __restrict__ scale;
  const float* __restrict__ offset;
};

// Position of an output element, and the record row and column that it shows.
template <class Int>
class Place {
 public:
  __device__ __forceinline__ Place(const Input& in, const Geometry& g, Int element) {
    const Int pixel = element / static_cast<Int>(g.channels);
    channel_ = static_cast<std::int32_t>(element - pixel * static_cast<Int>(g.channels));
    const Int line = pixel / static_cast<Int>(g.out_width);
    column_ = static_cast<std::int32_t>(pixel - line * static_cast<Int>(g.out_width));
    image_ = line / static_cast<Int>(g.out_height);
    row_ = static_cast<std::int32_t>(line - image_ * static_cast<Int>(g.out_height));
    window_ = in.windows[image_];
    find_row(in, g);
    find_pixel(g);
  }

  // The element's value in pixel units.
  __device__ __forceinline__ float pixel() const {
    return pixel_ ? static_cast<float>(__ldg(pixel_ + channel_)) : window_.fill;
  }
  // Moves to the next element; `more` says whether it is part of the output.
  __device__ __forceinline__ void advance(const Input& in, const Geometry& g, bool more) {
    if (++channel_ < g.channels || !more) return;
    channel_ = 0;
    if (++column_ == g.out_width) {
      column_ = 0;
      if (++row_ == g.out_height) {
        row_ = 0;
        window_ = in.windows[++image_];
      }
      find_row(in, g);
    }
    find_pixel(g);
  }

 private:
  __device__ __forceinline__ void find_row(const Input& in, const Geometry& g) {
    const std::int32_t row = kernels::shown_row(window_, row_, g.out_height);
    const bool inside = row >= 0 && row < g.height;
    line_ =
        inside ? in.records + (static_cast<Index>(image_) * g.height + row) * g.width * g.channels : nullptr;
  }
  __device__ __forceinline__ void find_pixel(const Geometry& g) {
    const std::int32_t column = kernels::shown_column(window_, column_, g.out_width);
    const bool inside = line_ != nullptr && column >= 0 && column < g.width;
    pixel_ = inside ? line_ + static_cast<Index>(column) * g.channels : nullptr;
  }

  Int image_;
  std::int32_t row_, column_, channel_;
  ImageWindow window_;
  const std::uint8_t *line_, *pixel_;  // null: shows the fill value
};

// Renders `count` elements; kWidth divides the index of every pack's first element.
template <class T, int kWidth, class Int>
__global__ void __launch_bounds__(kThreads)
    render_kernel(Input in, Geometry g, T* __restrict__ y, Int count) {
  const Int first = (Int{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  const Int step = Int{gridDim.x} * blockDim.x * kWidth;
  float scale[kWidth], offset[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const auto channel = static_cast<std::int32_t>((first + k) % static_cast<Int>(g.channels));
    scale[k] = in.scale[channel];
    offset[k] = in.offset[channel];
  }
  for (Int at = first; at < count; at += step) {
    Place<Int> place(in, g, at);
    const int valid = count - at < kWidth ? static_cast<int>(count - at) : kWidth;
    Pack<T, kWidth> pack;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      store(&pack.value[k], kernels::normalised(place.pixel(), scale[k], offset[k]));
      place.advance(in, g, k + 1 < valid);
    }
    if (valid == kWidth) {
      *reinterpret_cast<Pack<T, kWidth>*>(y + at) = pack;
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        if (k < valid) y[at + k] = pack.value[k];
    }
  }
}

template <class T, int kWidth>
void render(const Input& in, const Geometry& g, T* y, Index count, cudaStream_t stream) {
  constexpr Index kBlockElements = Index{kThreads} * kWidth;
  const Index multiple = g.channels / std::gcd<Index>(g.channels, kBlockElements);
  const auto blocks =
      static_cast<unsigned>(ceil_div(blocks_for(ceil_div(count, kWidth)), multiple) * multiple);
  // The sum of an index and the grid's width must fit as well.
  if (count + blocks * kBlockElements < Index{1} << 32) {
    launch("render_images", render_kernel<T, kWidth, std::uint32_t>, blocks, kThreads, stream, in, g, y,
           count);
  } else {
    launch("render_images", render_kernel<T, kWidth, std::uint64_t>, blocks, kThreads, stream, in, g, y,
           count);
  }
}

struct CudaImage final : GpuKernels<ImageKernels> {
  using GpuKernels::GpuKernels;

  void render_images(const Tensor& records, const Tensor& windows, const ImageAffine& affine,
                     const Tensor& y) override {
    if (y.numel() == 0) return;
    const auto extent = [](const Tensor& t, int axis) { return static_cast<std::int32_t>(t.size(axis)); };
    const Geometry g{extent(records, 1), extent(records, 2), extent(y, 1), extent(y, 2), extent(y, 3)};
    const Input in{records.data<std::uint8_t>(), static_cast<const ImageWindow*>(windows.raw()),
                   affine.scale.data<float>(), affine.offset.data<float>()};
    visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
      constexpr int kWidth = Pack<T>::kSize;
      if (is_aligned(y.raw())) {
        render<T, kWidth>(in, g, y.data<T>(), y.numel(), backend.stream());
      } else {
        render<T, 1>(in, g, y.data<T>(), y.numel(), backend.stream());
      }
    });
  }
};

}  // namespace

ImageKernels& CudaBackend::image() { return own<CudaImage>(kernels_.image); }

}  // namespace tandem::cuda
