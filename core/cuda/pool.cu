// Pooling on channels-last images. A thread computes 16 bytes of adjacent channels of one result, with sums
// in f32 (f64 if a type is f64). Gradients are gathered: each input element sums over the windows that cover
// it, in a fixed order, without cleared outputs or atomics. Overlapping windows are read from the caches;
// memory is read and written once.
//
// A block processes rows of the result, so that few divisions by run-time extents remain, in 32 bits. Mixed
// types, f64 and channels that do not fill 16 bytes use one element per thread.
#include <cuda_runtime.h>

#include <algorithm>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/error.h"
#include "core/kernels/pool.h"

namespace tandem::cuda {

namespace {

constexpr int kPoolThreads = 128;

// ---- Access

// 16 bytes of type S, with one position byte per element.
template <class S>
struct Packed {
  using C = ComputeType<S>;
  using Values = Pack<S>;
  using Positions = Pack<std::uint8_t, Values::kSize>;
  static constexpr int size = Values::kSize;

  static __device__ __forceinline__ void read(const Slot& a, Index at, C (&to)[size]) {
    const Values values = *reinterpret_cast<const Values*>(static_cast<const S*>(a.data) + at);
#pragma unroll
    for (int i = 0; i < size; ++i) to[i] = load(&values.value[i]);
  }
  static __device__ __forceinline__ void write(const Slot& a, Index at, const C (&from)[size]) {
    Values values;
#pragma unroll
    for (int i = 0; i < size; ++i) store(&values.value[i], from[i]);
    *reinterpret_cast<Values*>(static_cast<S*>(a.data) + at) = values;
  }
  static __device__ __forceinline__ void read_positions(const Slot& a, Index at, int (&to)[size]) {
    const Positions values =
        *reinterpret_cast<const Positions*>(static_cast<const std::uint8_t*>(a.data) + at);
#pragma unroll
    for (int i = 0; i < size; ++i) to[i] = values.value[i];
  }
  static __device__ __forceinline__ void write_positions(const Slot& a, Index at, const int (&from)[size]) {
    Positions values;
#pragma unroll
    for (int i = 0; i < size; ++i) values.value[i] = static_cast<std::uint8_t>(from[i]);
    *reinterpret_cast<Positions*>(static_cast<std::uint8_t*>(a.data) + at) = values;
  }
};

// One element of any type, computed in T.
template <class T>
struct Any {
  using C = T;
  static constexpr int size = 1;

  static __device__ __forceinline__ void read(const Slot& a, Index at, C (&to)[1]) {
    to[0] = load_any<C>(a.data, a.dtype, at);
  }
  static __device__ __forceinline__ void write(const Slot& a, Index at, const C (&from)[1]) {
    store_any(a.data, a.dtype, at, from[0]);
  }
  static __device__ __forceinline__ void read_positions(const Slot& a, Index at, int (&to)[1]) {
    to[0] = a.dtype == DType::u8 ? static_cast<const std::uint8_t*>(a.data)[at]
                                 : static_cast<const std::int32_t*>(a.data)[at];
  }
  static __device__ __forceinline__ void write_positions(const Slot& a, Index at, const int (&from)[1]) {
    if (a.dtype == DType::u8) {
      static_cast<std::uint8_t*>(a.data)[at] = static_cast<std::uint8_t>(from[0]);
    } else {
      static_cast<std::int32_t*>(a.data)[at] = from[0];
    }
  }
};

// ---- Geometry

struct Geometry {
  int batch, height, width, channels, out_height, out_width;
};

struct Span {
  int first, last;
};

// One axis of fixed windows, and the mapping between input and output positions.
struct Axis {
  int kernel, stride, padding, extent, out_extent;
  int reach, rest;  // kernel - 1 divided by stride

  __device__ __forceinline__ int start(int out) const { return out * stride - padding; }
  // Input positions of output position `out`, clipped to the image.
  __device__ __forceinline__ Span window(int out) const {
    return {max(start(out), 0), min(start(out) + kernel, extent)};
  }
  // Output positions whose windows cover input position `in`: the last one that starts at or before it, and
  // those before that overlap it.
  __device__ __forceinline__ Span covering(int in) const {
    const unsigned shifted = static_cast<unsigned>(in + padding), each = static_cast<unsigned>(stride);
    const unsigned last = shifted / each;
    const int before = reach - (shifted - last * each > static_cast<unsigned>(rest) ? 1 : 0);
    return {max(static_cast<int>(last) - before, 0), min(static_cast<int>(last) + 1, out_extent)};
  }
};

struct FixedWindows {
  Axis y, x;
  bool count_include_pad;

  __device__ __forceinline__ Span rows(int oy) const { return y.window(oy); }
  __device__ __forceinline__ Span columns(int ox) const { return x.window(ox); }
  __device__ __forceinline__ Span covering_rows(int iy) const { return y.covering(iy); }
  __device__ __forceinline__ Span covering_columns(int ix) const { return x.covering(ix); }
  // Number of averaged values along one axis.
  __device__ __forceinline__ int count(const Axis& axis, int out) const {
    if (count_include_pad) {
      // The window is clipped to the padded image.
      return min(axis.start(out) + axis.kernel, axis.extent + axis.padding) - axis.start(out);
    }
    const Span span = axis.window(out);
    return span.last - span.first;
  }
  __device__ __forceinline__ int count_rows(int oy) const { return count(y, oy); }
  __device__ __forceinline__ int count_columns(int ox) const { return count(x, ox); }
};

// Adaptive windows, whose extents do not divide those of the image; otherwise fixed windows are used.
struct AdaptiveWindows {
  int height, width, out_height, out_width;
  bool small;  // products of two extents fit in 31 bits: 32-bit divisions cost a quarter

  // i·by/over, rounded down and up.
  __device__ __forceinline__ int scaled(int i, int by, int over) const {
    if (small) return static_cast<int>(static_cast<unsigned>(i * by) / static_cast<unsigned>(over));
    return static_cast<int>(static_cast<Index>(i) * by / over);
  }
  __device__ __forceinline__ int scaled_up(int i, int by, int over) const {
    if (small)
      return static_cast<int>(static_cast<unsigned>(i * by + over - 1) / static_cast<unsigned>(over));
    return static_cast<int>((static_cast<Index>(i) * by + over - 1) / over);
  }
  __device__ __forceinline__ Span rows(int oy) const {
    return {scaled(oy, height, out_height), scaled_up(oy + 1, height, out_height)};
  }
  __device__ __forceinline__ Span columns(int ox) const {
    return {scaled(ox, width, out_width), scaled_up(ox + 1, width, out_width)};
  }
  __device__ __forceinline__ Span covering_rows(int iy) const {
    return {scaled(iy, out_height, height), scaled_up(iy + 1, out_height, height)};
  }
  __device__ __forceinline__ Span covering_columns(int ix) const {
    return {scaled(ix, out_width, width), scaled_up(ix + 1, out_width, width)};
  }
  __device__ __forceinline__ int count_rows(int oy) const { return rows(oy).last - rows(oy).first; }
  __device__ __forceinline__ int count_columns(int ox) const { return columns(ox).last - columns(ox).first; }
};

// Calls body(image, row, column, first channel) for this thread's positions, kSize channels each.
template <int kSize, class Body>
__device__ __forceinline__ void over_positions(int batch, int height, int width, int channels, Body&& body) {
  const unsigned packs = static_cast<unsigned>(channels) / kSize;
  const unsigned in_row = blockIdx.x * blockDim.x + threadIdx.x;
  if (in_row >= packs * static_cast<unsigned>(width)) return;
  const int column = static_cast<int>(in_row / packs);
  const int channel = static_cast<int>(in_row % packs) * kSize;
  for (unsigned row = blockIdx.y; row < static_cast<unsigned>(batch) * static_cast<unsigned>(height);
       row += gridDim.y) {
    const unsigned image = row / static_cast<unsigned>(height);
    body(static_cast<int>(image), static_cast<int>(row - image * static_cast<unsigned>(height)), column,
         channel);
  }
}

// Element (image, y, x, channel) of [.., height, width, channels].
__device__ __forceinline__ Index element_at(int image, int y, int x, int channel, int height, int width,
                                            int channels) {
  return ((static_cast<Index>(image) * height + y) * width + x) * channels + channel;
}

// ---- Maximum

template <class A>
__global__ void __launch_bounds__(kPoolThreads)
    max_kernel(Geometry g, Axis along_y, Axis along_x, Slot x, Slot y, Slot where) {
  await_earlier_work();
  using C = typename A::C;
  over_positions<A::size>(
      g.batch, g.out_height, g.out_width, g.channels, [&](int image, int oy, int ox, int channel) {
        const Span ys = along_y.window(oy), xs = along_x.window(ox);
        const int top = along_y.start(oy), left = along_x.start(ox);
        C best[A::size];
        int position[A::size];
        A::read(x, element_at(image, ys.first, xs.first, channel, g.height, g.width, g.channels), best);
#pragma unroll
        for (int i = 0; i < A::size; ++i) position[i] = (ys.first - top) * along_x.kernel + xs.first - left;
        for (int iy = ys.first; iy < ys.last; ++iy) {
          const Index row = element_at(image, iy, 0, channel, g.height, g.width, g.channels);
#pragma unroll 3
          for (int ix = xs.first; ix < xs.last; ++ix) {
            C value[A::size];
            A::read(x, row + static_cast<Index>(ix) * g.channels, value);
            const int here = (iy - top) * along_x.kernel + ix - left;
#pragma unroll
            for (int i = 0; i < A::size; ++i) {
              const bool take = value[i] > best[i] || value[i] != value[i];
              best[i] = take ? value[i] : best[i];
              position[i] = take ? here : position[i];
            }
          }
        }
        const Index out = element_at(image, oy, ox, channel, g.out_height, g.out_width, g.channels);
        A::write(y, out, best);
        A::write_positions(where, out, position);
      });
}

template <class A>
__global__ void __launch_bounds__(kPoolThreads)
    max_backward_kernel(Geometry g, Axis along_y, Axis along_x, Slot dy, Slot where, Slot dx) {
  await_earlier_work();
  using C = typename A::C;
  over_positions<A::size>(
      g.batch, g.height, g.width, g.channels, [&](int image, int iy, int ix, int channel) {
        const Span ys = along_y.covering(iy), xs = along_x.covering(ix);
        C sum[A::size] = {};
        for (int oy = ys.first; oy < ys.last; ++oy) {
          const int row = (iy - along_y.start(oy)) * along_x.kernel;
          const Index line = element_at(image, oy, 0, channel, g.out_height, g.out_width, g.channels);
#pragma unroll 2
          for (int ox = xs.first; ox < xs.last; ++ox) {
            const int here = row + ix - along_x.start(ox);
            C value[A::size];
            int position[A::size];
            A::read(dy, line + static_cast<Index>(ox) * g.channels, value);
            A::read_positions(where, line + static_cast<Index>(ox) * g.channels, position);
#pragma unroll
            for (int i = 0; i < A::size; ++i) sum[i] += position[i] == here ? value[i] : C(0);
          }
        }
        A::write(dx, element_at(image, iy, ix, channel, g.height, g.width, g.channels), sum);
      });
}

template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    max_select_kernel(Geometry g, Axis along_y, Axis along_x, Slot x, Slot where, Slot y) {
  await_earlier_work();
  using A = Any<T>;
  over_positions<1>(
      g.batch, g.out_height, g.out_width, g.channels, [&](int image, int oy, int ox, int channel) {
        const Index out = element_at(image, oy, ox, channel, g.out_height, g.out_width, g.channels);
        int position[1];
        T value[1];
        A::read_positions(where, out, position);
        const int iy = along_y.start(oy) + position[0] / along_x.kernel;
        const int ix = along_x.start(ox) + position[0] % along_x.kernel;
        A::read(x, element_at(image, iy, ix, channel, g.height, g.width, g.channels), value);
        A::write(y, out, value);
      });
}

// ---- Average

template <class A, class Windows>
__global__ void __launch_bounds__(kPoolThreads) average_kernel(Geometry g, Windows windows, Slot x, Slot y) {
  await_earlier_work();
  using C = typename A::C;
  over_positions<A::size>(
      g.batch, g.out_height, g.out_width, g.channels, [&](int image, int oy, int ox, int channel) {
        const Span ys = windows.rows(oy), xs = windows.columns(ox);
        C sum[A::size] = {};
        for (int iy = ys.first; iy < ys.last; ++iy) {
          const Index row = element_at(image, iy, 0, channel, g.height, g.width, g.channels);
#pragma unroll 4
          for (int ix = xs.first; ix < xs.last; ++ix) {
            C value[A::size];
            A::read(x, row + static_cast<Index>(ix) * g.channels, value);
#pragma unroll
            for (int i = 0; i < A::size; ++i) sum[i] += value[i];
          }
        }
        const C factor =
            C(1) / (static_cast<C>(windows.count_rows(oy)) * static_cast<C>(windows.count_columns(ox)));
#pragma unroll
        for (int i = 0; i < A::size; ++i) sum[i] *= factor;
        A::write(y, element_at(image, oy, ox, channel, g.out_height, g.out_width, g.channels), sum);
      });
}

template <class A, class Windows>
__global__ void __launch_bounds__(kPoolThreads)
    average_backward_kernel(Geometry g, Windows windows, Slot dy, Slot dx) {
  await_earlier_work();
  using C = typename A::C;
  over_positions<A::size>(
      g.batch, g.height, g.width, g.channels, [&](int image, int iy, int ix, int channel) {
        const Span ys = windows.covering_rows(iy), xs = windows.covering_columns(ix);
        C sum[A::size] = {};
        for (int oy = ys.first; oy < ys.last; ++oy) {
          const C rows = static_cast<C>(windows.count_rows(oy));
          const Index line = element_at(image, oy, 0, channel, g.out_height, g.out_width, g.channels);
          for (int ox = xs.first; ox < xs.last; ++ox) {
            C value[A::size];
            A::read(dy, line + static_cast<Index>(ox) * g.channels, value);
            const C factor = C(1) / (rows * static_cast<C>(windows.count_columns(ox)));
#pragma unroll
            for (int i = 0; i < A::size; ++i) sum[i] += factor * value[i];
          }
        }
        A::write(dx, element_at(image, iy, ix, channel, g.height, g.width, g.channels), sum);
      });
}

// ---- Choosing

Geometry geometry_of(const Tensor& x, const Tensor& y) {
  const auto extent = [](const Tensor& t, int axis) { return static_cast<int>(t.size(axis)); };
  return {extent(x, 0), extent(x, 1), extent(x, 2), extent(x, 3), extent(y, 1), extent(y, 2)};
}

Axis axis_of(const Pool2dOptions& o, int axis, int extent, int out_extent) {
  const auto at = static_cast<std::size_t>(axis);
  const int kernel = static_cast<int>(o.kernel[at]), stride = static_cast<int>(o.stride[at]);
  return {.kernel = kernel,
          .stride = stride,
          .padding = static_cast<int>(o.padding[at]),
          .extent = extent,
          .out_extent = out_extent,
          .reach = (kernel - 1) / stride,
          .rest = (kernel - 1) % stride};
}
Axis vertical(const Pool2dOptions& o, const Geometry& g) { return axis_of(o, 0, g.height, g.out_height); }
Axis horizontal(const Pool2dOptions& o, const Geometry& g) { return axis_of(o, 1, g.width, g.out_width); }

FixedWindows fixed_windows(const Pool2dOptions& o, const Geometry& g) {
  return {vertical(o, g), horizontal(o, g), o.count_include_pad};
}

// Calls visit(windows) for adaptive pooling.
template <class Visit>
void visit_adaptive(const Geometry& g, Visit&& visit) {
  if (std::min({g.height, g.width, g.out_height, g.out_width}) > 0 && g.height % g.out_height == 0 &&
      g.width % g.out_width == 0) {
    const Pool2dOptions o{.kernel = {g.height / g.out_height, g.width / g.out_width},
                          .stride = {g.height / g.out_height, g.width / g.out_width}};
    return visit(fixed_windows(o, g));
  }
  constexpr int kSmall = 32767;
  visit(AdaptiveWindows{.height = g.height,
                        .width = g.width,
                        .out_height = g.out_height,
                        .out_width = g.out_width,
                        .small = std::max({g.height, g.width, g.out_height, g.out_width}) <= kSmall});
}

// Grid over rows of the result, [.., height, width, channels], with `size` channels per thread. A thread has
// up to 16 rows, so that values that depend only on the column are computed once; fewer if the blocks do not
// fill a GPU twice.
dim3 grid_of(const Tensor& result, int size) {
  constexpr Index kMostRows = 65535, kEnough = kProcessors * 32, kRowsEach = 16;
  const Index rows = result.size(0) * result.size(1);
  const Index along = ceil_div(result.size(2) * (result.size(3) / size), kPoolThreads);
  const Index down = std::max(ceil_div(kEnough, along), ceil_div(rows, kRowsEach));
  return {static_cast<unsigned>(along), static_cast<unsigned>(std::min({rows, down, kMostRows}))};
}

// Calls visit(TypeTag<access>{}) with the access type for two images and optional positions.
template <class Visit>
void visit_access(const Tensor& a, const Tensor& b, const Tensor* where, Visit&& visit) {
  const bool bytes = where == nullptr || where->dtype() == DType::u8;
  const Index size = 16 / static_cast<Index>(size_of(a.dtype()));
  if (a.dtype() == b.dtype() && a.dtype() != DType::f64 && bytes && a.size(3) % size == 0 &&
      is_aligned(a.raw()) && is_aligned(b.raw()) &&
      (where == nullptr || is_aligned(where->raw(), static_cast<std::size_t>(size)))) {
    return visit_below_f64(a.dtype(), [&]<class S>(TypeTag<S>) { visit(TypeTag<Packed<S>>{}); });
  }
  if (a.dtype() == DType::f64 || b.dtype() == DType::f64) return visit(TypeTag<Any<double>>{});
  visit(TypeTag<Any<float>>{});
}

void check_positions(const Tensor& where) {
  ensure(where.dtype() == DType::u8 || where.dtype() == DType::i32, "max_pool2d",
         "positions are u8 or i32, not {}", name_of(where.dtype()));
}

template <class Windows>
void average(const Tensor& x, const Tensor& y, const Geometry& g, const Windows& windows,
             cudaStream_t stream) {
  visit_access(x, y, nullptr, [&]<class A>(TypeTag<A>) {
    launch_early("avg_pool2d", average_kernel<A, Windows>, grid_of(y, A::size), kPoolThreads, stream, g,
                 windows, slot_of(x), slot_of(y));
  });
}

template <class Windows>
void average_backward(const Tensor& dy, const Tensor& dx, const Geometry& g, const Windows& windows,
                      cudaStream_t stream) {
  visit_access(dx, dy, nullptr, [&]<class A>(TypeTag<A>) {
    launch_early("avg_pool2d_backward", average_backward_kernel<A, Windows>, grid_of(dx, A::size),
                 kPoolThreads, stream, g, windows, slot_of(dy), slot_of(dx));
  });
}

struct CudaPool final : GpuKernels<PoolKernels> {
  using GpuKernels::GpuKernels;

  void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& where,
                  const Pool2dOptions& options) override {
    if (y.numel() == 0) return;
    ensure(x.dtype() == y.dtype(), "max_pool2d", "input {} and output {} differ in dtype", to_string(x),
           to_string(y));
    check_positions(where);
    const Geometry g = geometry_of(x, y);
    visit_access(x, y, &where, [&]<class A>(TypeTag<A>) {
      launch_early("max_pool2d", max_kernel<A>, grid_of(y, A::size), kPoolThreads, backend.stream(), g,
                   vertical(options, g), horizontal(options, g), slot_of(x), slot_of(y), slot_of(where));
    });
  }

  void max_pool2d_backward(const Tensor& dy, const Tensor& where, const Tensor& dx,
                           const Pool2dOptions& options) override {
    if (dx.numel() == 0) return;
    check_positions(where);
    const Geometry g = geometry_of(dx, dy);
    visit_access(dx, dy, &where, [&]<class A>(TypeTag<A>) {
      launch_early("max_pool2d_backward", max_backward_kernel<A>, grid_of(dx, A::size), kPoolThreads,
                   backend.stream(), g, vertical(options, g), horizontal(options, g), slot_of(dy),
                   slot_of(where), slot_of(dx));
    });
  }

  void max_pool2d_select(const Tensor& x, const Tensor& where, const Tensor& y,
                         const Pool2dOptions& options) override {
    if (y.numel() == 0) return;
    check_positions(where);
    const Geometry g = geometry_of(x, y);
    const auto run = [&]<class T>(TypeTag<T>) {
      launch_early("max_pool2d_select", max_select_kernel<T>, grid_of(y, 1), kPoolThreads, backend.stream(),
                   g, vertical(options, g), horizontal(options, g), slot_of(x), slot_of(where), slot_of(y));
    };
    visit_compute(y.dtype() == DType::f64 ? y.dtype() : x.dtype(), run);
  }

  void avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dOptions& options) override {
    if (y.numel() == 0) return;
    const Geometry g = geometry_of(x, y);
    average(x, y, g, fixed_windows(options, g), backend.stream());
  }

  void avg_pool2d_backward(const Tensor& dy, const Tensor& dx, const Pool2dOptions& options) override {
    if (dx.numel() == 0) return;
    const Geometry g = geometry_of(dx, dy);
    average_backward(dy, dx, g, fixed_windows(options, g), backend.stream());
  }

  void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) override {
    if (y.numel() == 0) return;
    const Geometry g = geometry_of(x, y);
    visit_adaptive(g, [&](const auto& windows) { average(x, y, g, windows, backend.stream()); });
  }

  void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) override {
    if (dx.numel() == 0) return;
    const Geometry g = geometry_of(dx, dy);
    visit_adaptive(g, [&](const auto& windows) { average_backward(dy, dx, g, windows, backend.stream()); });
  }
};

}  // namespace

PoolKernels& CudaBackend::pool() { return own<CudaPool>(kernels_.pool); }

}  // namespace tandem::cuda
