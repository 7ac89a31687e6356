// Resizing of channels-last images, with the coordinates of core/cpu/kernels/shape_resize.cpp.
//
// A first kernel computes the taps of every output row and column and, for backward, the outputs that read
// every input row and column: source positions are monotonic, so these readers form a range. Then one thread
// computes one pack of channels of one pixel. Backward sums over the readers of a pixel in ascending order,
// like the CPU: no atomics, reproducible bits.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/shape.h"

namespace tandem::cuda {

namespace {

// Output position i reads near·(1-weight) + far·weight.
template <class C>
struct alignas(16) Tap {
  std::int32_t near = 0, far = 0;
  C weight = 0;
};

// Outputs [first, last) read an input position.
struct Readers {
  std::int32_t first, last;
};

// One axis of the images.
struct Scaling {
  Index in, out;
  ResizeMode mode;
  bool align_corners;
  double scale;  // 0: ratio of the extents
};

// Input pixels per output pixel.
template <class C>
__device__ C ratio_of(const Scaling& s) {
  return s.scale > 0.0 ? static_cast<C>(1.0 / s.scale) : static_cast<C>(s.in) / static_cast<C>(s.out);
}

template <class C>
__device__ Tap<C> tap_of(const Scaling& s, Index i) {
  Tap<C> tap;
  const Index last = s.in - 1;
  if (s.mode == ResizeMode::nearest) {
    const auto at = static_cast<Index>(floorf(static_cast<float>(i) * ratio_of<float>(s)));
    tap.near = tap.far = static_cast<std::int32_t>(at < last ? at : last);
    return tap;
  }
  C at;
  if (s.align_corners) {
    at = s.out > 1 ? static_cast<C>(i) * (static_cast<C>(last) / static_cast<C>(s.out - 1)) : C(0);
  } else {
    at = (static_cast<C>(i) + C(0.5)) * ratio_of<C>(s) - C(0.5);
    at = at > C(0) ? at : C(0);
  }
  const auto below = static_cast<Index>(at);
  tap.near = static_cast<std::int32_t>(below < last ? below : last);
  tap.far = static_cast<std::int32_t>(tap.near < last ? tap.near + 1 : last);
  const C weight = at - static_cast<C>(tap.near);
  tap.weight = weight < C(0) ? C(0) : weight > C(1) ? C(1) : weight;
  return tap;
}

template <class C>
__device__ Readers readers_of(const Scaling& s, Index position) {
  // The first output for which `holds` is false; it is true for a leading range.
  const auto partition = [&](const auto& holds) {
    Index low = 0, high = s.out;
    while (low < high) {
      const Index middle = low + (high - low) / 2;
      if (holds(tap_of<C>(s, middle))) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return static_cast<std::int32_t>(low);
  };
  return {partition([&](const Tap<C>& tap) { return tap.far < position; }),
          partition([&](const Tap<C>& tap) { return tap.near <= position; })};
}

// Tables of one call: rows first, then columns.
template <class C>
struct Tables {
  Tap<C>* taps;      // [out rows + out columns]
  Readers* readers;  // [in rows + in columns], or null
};

template <class C>
__global__ void tables_kernel(Scaling rows, Scaling columns, Tables<C> tables) {
  const Index step = Index{gridDim.x} * blockDim.x, first = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  for (Index i = first; i < rows.out + columns.out; i += step)
    tables.taps[i] = i < rows.out ? tap_of<C>(rows, i) : tap_of<C>(columns, i - rows.out);
  if (tables.readers == nullptr) return;
  for (Index i = first; i < rows.in + columns.in; i += step)
    tables.readers[i] = i < rows.in ? readers_of<C>(rows, i) : readers_of<C>(columns, i - rows.in);
}

// ---- Elements: packs of one type, or single ones of any types

template <class T, class C>
struct TypedPacks {
  static constexpr int kWidth = Pack<T>::kSize;
  T* data;

  __device__ __forceinline__ Pack<T> fetch(Index i) const {
    return *reinterpret_cast<const Pack<T>*>(data + i);
  }
  __device__ __forceinline__ void get(Index i, C* values) const {
    const Pack<T> pack = fetch(i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) values[k] = convert<C>(pack.value[k]);
  }
  __device__ __forceinline__ void put(Index i, const C* values) const {
    Pack<T> pack;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) store(&pack.value[k], values[k]);
    *reinterpret_cast<Pack<T>*>(data + i) = pack;
  }
};

template <class C>
struct AnyElements {
  static constexpr int kWidth = 1;
  void* data;
  DType dtype;

  __device__ __forceinline__ void get(Index i, C* values) const { values[0] = load_any<C>(data, dtype, i); }
  __device__ __forceinline__ void put(Index i, const C* values) const {
    store_any(data, dtype, i, values[0]);
  }
};

// Extents of the images; `channels` counts elements, `units` packs per pixel.
struct Extents {
  Index images, in_height, in_width, out_height, out_width, channels, units;
};

// The pack and pixel of a thread. Int is 32-bit if the extents allow.
template <class Int>
struct Place {
  Int image, row, column, channel;

  __device__ __forceinline__ Place(Int item, const Extents& e, Index height, Index width, int pack) {
    const Int pixel = item / static_cast<Int>(e.units);
    channel = (item - pixel * static_cast<Int>(e.units)) * static_cast<Int>(pack);
    const Int line = pixel / static_cast<Int>(width);
    column = pixel - line * static_cast<Int>(width);
    image = line / static_cast<Int>(height);
    row = line - image * static_cast<Int>(height);
  }
};

template <class C, class Elements, class Int>
__global__ void __launch_bounds__(kThreads)
    resize_kernel(Elements x, Elements y, const Tap<C>* taps, Extents e, bool nearest) {
  constexpr int kWidth = Elements::kWidth;
  const Int items = static_cast<Int>(e.images * e.out_height * e.out_width * e.units);
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int item = Int{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += step) {
    const Place<Int> place(item, e, e.out_height, e.out_width, kWidth);
    const Tap<C> v = taps[place.row], h = taps[e.out_height + place.column];
    const Index image = static_cast<Index>(place.image) * e.in_height;
    const Index upper = (image + v.near) * e.in_width, lower = (image + v.far) * e.in_width;
    const Index channel = static_cast<Index>(place.channel);
    C result[kWidth];
    if (nearest) {
      x.get((upper + h.near) * e.channels + channel, result);
    } else {
      C a[kWidth], b[kWidth], c[kWidth], d[kWidth];
      x.get((upper + h.near) * e.channels + channel, a);
      x.get((upper + h.far) * e.channels + channel, b);
      x.get((lower + h.near) * e.channels + channel, c);
      x.get((lower + h.far) * e.channels + channel, d);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const C top = (C(1) - h.weight) * a[k] + h.weight * b[k];
        const C bottom = (C(1) - h.weight) * c[k] + h.weight * d[k];
        result[k] = (C(1) - v.weight) * top + v.weight * bottom;
      }
    }
    y.put(static_cast<Index>(item) * kWidth, result);
  }
}

template <class C, class Elements, class Int>
__global__ void __launch_bounds__(kThreads)
    resize_backward_kernel(Elements dy, Elements dx, Tables<C> tables, Extents e) {
  constexpr int kWidth = Elements::kWidth;
  const Int items = static_cast<Int>(e.images * e.in_height * e.in_width * e.units);
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int item = Int{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += step) {
    const Place<Int> place(item, e, e.in_height, e.in_width, kWidth);
    const int row = static_cast<int>(place.row), column = static_cast<int>(place.column);
    const Readers rows = tables.readers[row], columns = tables.readers[e.in_height + column];
    C sum[kWidth] = {};
    for (int i = rows.first; i < rows.last; ++i) {
      const Tap<C> v = tables.taps[i];
      const C weight = (v.near == row ? C(1) - v.weight : C(0)) + (v.far == row ? v.weight : C(0));
      if (weight == C(0)) continue;
      const Index line = (static_cast<Index>(place.image) * e.out_height + i) * e.out_width;
      for (int j = columns.first; j < columns.last; ++j) {
        const Tap<C> h = tables.taps[e.out_height + j];
        const bool near = h.near == column, far = h.far == column && h.weight != C(0);
        if (!near && !far) continue;  // a non-finite gradient times a zero weight would be NaN
        C gradient[kWidth];
        dy.get((line + j) * e.channels + static_cast<Index>(place.channel), gradient);
        if (near) {
          const C share = weight * (C(1) - h.weight);
#pragma unroll
          for (int k = 0; k < kWidth; ++k) sum[k] += share * gradient[k];
        }
        if (far) {
          const C share = weight * h.weight;
#pragma unroll
          for (int k = 0; k < kWidth; ++k) sum[k] += share * gradient[k];
        }
      }
    }
    dx.put(static_cast<Index>(item) * kWidth, sum);
  }
}

// ---- Launches

struct Call {
  const CudaBackend& backend;
  Tensor in, out;  // x and y; dx and dy
  Scaling rows, columns;
  Extents extents;
  bool backward;
};

template <class C, class Elements, class Int>
void run_sized(const Call& call, const Elements& in, const Elements& out, const Tables<C>& tables,
               Index items) {
  if (call.backward) {
    launch("resize2d_backward", resize_backward_kernel<C, Elements, Int>, blocks_for(items), kThreads,
           call.backend.stream(), out, in, tables, call.extents);
  } else {
    launch("resize2d", resize_kernel<C, Elements, Int>, blocks_for(items), kThreads, call.backend.stream(),
           in, out, tables.taps, call.extents, call.rows.mode == ResizeMode::nearest);
  }
}

template <class C, class Elements>
void run(Call call, const Elements& in, const Elements& out) {
  const Index taps = call.rows.out + call.columns.out, readers = call.rows.in + call.columns.in;
  const Tensor tap_memory = call.backend.workspace({taps * static_cast<Index>(sizeof(Tap<C>))}, DType::u8);
  const Tensor reader_memory =
      call.backward ? call.backend.workspace({readers * static_cast<Index>(sizeof(Readers))}, DType::u8)
                    : Tensor();
  const Tables<C> tables{static_cast<Tap<C>*>(tap_memory.raw()),
                         call.backward ? static_cast<Readers*>(reader_memory.raw()) : nullptr};
  launch("resize2d", tables_kernel<C>, blocks_for(std::max(taps, readers)), kThreads, call.backend.stream(),
         call.rows, call.columns, tables);
  call.extents.units = call.extents.channels / Elements::kWidth;
  const Index items = (call.backward ? call.in.numel() : call.out.numel()) / Elements::kWidth;
  if (items < Index{1} << 31) return run_sized<C, Elements, std::uint32_t>(call, in, out, tables, items);
  run_sized<C, Elements, std::uint64_t>(call, in, out, tables, items);
}

template <class T>
bool run_packs(const Call& call) {
  using Packs = TypedPacks<T, float>;
  if (call.extents.channels % Packs::kWidth != 0 || !is_aligned(call.in.raw()) || !is_aligned(call.out.raw()))
    return false;
  run<float>(call, Packs{call.in.data<T>()}, Packs{call.out.data<T>()});
  return true;
}

void resize(const CudaBackend& backend, const Tensor& in, const Tensor& out, const ResizeOptions& options,
            bool backward) {
  if (!is_floating(in.dtype())) fail_not_floating(in.dtype());
  if (!is_floating(out.dtype())) fail_not_floating(out.dtype());
  const Extents extents{in.size(0), in.size(1), in.size(2), out.size(1), out.size(2), in.size(3), 0};
  const auto scaling = [&](Index from, Index to, std::size_t axis) {
    return Scaling{from, to, options.mode, options.align_corners, options.scale[axis]};
  };
  const Call call{backend,
                  in,
                  out,
                  scaling(extents.in_height, extents.out_height, 0),
                  scaling(extents.in_width, extents.out_width, 1),
                  extents,
                  backward};
  bool done = false;
  if (in.dtype() == out.dtype())
    visit_below_f64(in.dtype(), [&]<class S>(TypeTag<S>) { done = run_packs<S>(call); });
  if (done) return;
  const auto any = [&]<class C>(TypeTag<C>) {
    run<C>(call, AnyElements<C>{in.raw(), in.dtype()}, AnyElements<C>{out.raw(), out.dtype()});
  };
  visit_compute(out.dtype() == DType::f64 ? out.dtype() : in.dtype(), any);
}

}  // namespace

void CudaShape::resize2d(const Tensor& x, const Tensor& y, const ResizeOptions& options) {
  if (y.numel() == 0) return;
  resize(backend, x, y, options, false);
}

void CudaShape::resize2d_backward(const Tensor& dy, const Tensor& dx, const ResizeOptions& options) {
  if (dx.numel() == 0) return;
  resize(backend, dx, dy, options, true);
}

}  // namespace tandem::cuda
