// Pooling on channels-last images, vectorised over channels; one thread computes an output row. Sums are f32,
// or f64 for f64. Gradients are gathered: each input element sums over the windows that cover it, in a fixed
// order, so threads need neither synchronisation nor a cleared output.
#include "core/kernels/pool.h"

#include <algorithm>
#include <type_traits>

#include "core/convert.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/simd.h"
#include "core/cpu/parallel.h"
#include "core/error.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

// Channels per chunk; their running values stay in registers or L1.
constexpr Index kChunk = 64;

struct Geometry {
  Index batch, height, width, channels, out_height, out_width;
};

Geometry geometry_of(const Tensor& x, const Tensor& y) {
  return {x.size(0), x.size(1), x.size(2), x.size(3), y.size(1), y.size(2)};
}

// Half-open range of positions along one axis.
struct Range {
  Index first, last;
};

// Input positions of output position `out`, clipped to the image.
Range window(Index out, Index kernel, Index stride, Index padding, Index extent) {
  const Index start = out * stride - padding;
  return {std::max<Index>(start, 0), std::min(start + kernel, extent)};
}

// Output positions whose windows cover input position `in`.
Range covering(Index in, Index kernel, Index stride, Index padding, Index out_extent) {
  const Index shifted = in + padding;
  return {shifted < kernel ? 0 : (shifted - kernel) / stride + 1, std::min(shifted / stride + 1, out_extent)};
}

Range adaptive_window(Index out, Index in_extent, Index out_extent) {
  return {out * in_extent / out_extent, ((out + 1) * in_extent + out_extent - 1) / out_extent};
}

Range adaptive_covering(Index in, Index in_extent, Index out_extent) {
  return {in * out_extent / in_extent, ((in + 1) * out_extent + in_extent - 1) / in_extent};
}

// Calls body(row, first channel, channel count) for all rows in parallel, in chunks of channels.
template <class Body>
void for_each_row(Index rows, const Body& body) {
  parallel_for(true, rows, [&](Index row) { body(row); });
}

template <class Body>
void for_each_chunk(Index channels, const Body& body) {
  for (Index c = 0; c < channels; c += kChunk) body(c, std::min(kChunk, channels - c));
}

template <class T>
void read(const T* from, Index count, ComputeType<T>* to) {
  for (Index i = 0; i < count; ++i) to[i] = convert<ComputeType<T>>(from[i]);
}

template <class T>
void write(const ComputeType<T>* from, Index count, T* to) {
  for (Index i = 0; i < count; ++i) to[i] = convert<T>(from[i]);
}

// ---- max

template <class T, class Where>
void max_forward(const Geometry& g, const Pool2dOptions& o, const T* x, T* y, Where* where) {
  using C = ComputeType<T>;
  for_each_row(g.batch * g.out_height, [&](Index row) {
    const Index n = row / g.out_height, oy = row % g.out_height;
    const Range ys = window(oy, o.kernel[0], o.stride[0], o.padding[0], g.height);
    for (Index ox = 0; ox < g.out_width; ++ox) {
      const Range xs = window(ox, o.kernel[1], o.stride[1], o.padding[1], g.width);
      const Index out = (row * g.out_width + ox) * g.channels;
      for_each_chunk(g.channels, [&](Index c, Index count) {
        C best[kChunk];
        std::int32_t position[kChunk];
        C value[kChunk];
        const auto at = [&](Index iy, Index ix) {
          return x + ((n * g.height + iy) * g.width + ix) * g.channels + c;
        };
        const auto position_of = [&](Index iy, Index ix) {
          return static_cast<std::int32_t>((iy - oy * o.stride[0] + o.padding[0]) * o.kernel[1] + ix -
                                           ox * o.stride[1] + o.padding[1]);
        };
        read(at(ys.first, xs.first), count, best);
        std::fill_n(position, count, position_of(ys.first, xs.first));
        for (Index iy = ys.first; iy < ys.last; ++iy) {
          for (Index ix = xs.first; ix < xs.last; ++ix) {
            const std::int32_t here = position_of(iy, ix);
            read(at(iy, ix), count, value);
            for (Index i = 0; i < count; ++i) {
              const bool take = value[i] > best[i] || value[i] != value[i];
              best[i] = take ? value[i] : best[i];
              position[i] = take ? here : position[i];
            }
          }
        }
        write(best, count, y + out + c);
        for (Index i = 0; i < count; ++i) where[out + c + i] = static_cast<Where>(position[i]);
      });
    }
  });
}

template <class T, class U, class Where>
void max_backward(const Geometry& g, const Pool2dOptions& o, const U* dy, const Where* where, T* dx) {
  using C = std::common_type_t<ComputeType<T>, ComputeType<U>>;
  for_each_row(g.batch * g.height, [&](Index row) {
    const Index n = row / g.height, iy = row % g.height;
    const Range ys = covering(iy, o.kernel[0], o.stride[0], o.padding[0], g.out_height);
    for (Index ix = 0; ix < g.width; ++ix) {
      const Range xs = covering(ix, o.kernel[1], o.stride[1], o.padding[1], g.out_width);
      T* to = dx + (row * g.width + ix) * g.channels;
      for_each_chunk(g.channels, [&](Index c, Index count) {
        C sum[kChunk] = {};
        for (Index oy = ys.first; oy < ys.last; ++oy) {
          for (Index ox = xs.first; ox < xs.last; ++ox) {
            const Index out = ((n * g.out_height + oy) * g.out_width + ox) * g.channels + c;
            const auto here = static_cast<Where>((iy - oy * o.stride[0] + o.padding[0]) * o.kernel[1] + ix -
                                                 ox * o.stride[1] + o.padding[1]);
            for (Index i = 0; i < count; ++i)
              sum[i] += where[out + i] == here ? static_cast<C>(convert<ComputeType<U>>(dy[out + i])) : C(0);
          }
        }
        for (Index i = 0; i < count; ++i) to[c + i] = convert<T>(sum[i]);
      });
    }
  });
}

template <class T, class U, class Where>
void max_select(const Geometry& g, const Pool2dOptions& o, const T* x, const Where* where, U* y) {
  for_each_row(g.batch * g.out_height, [&](Index row) {
    const Index n = row / g.out_height, oy = row % g.out_height;
    for (Index ox = 0; ox < g.out_width; ++ox) {
      const Index out = (row * g.out_width + ox) * g.channels;
      for (Index c = 0; c < g.channels; ++c) {
        const Index iy = oy * o.stride[0] - o.padding[0] + where[out + c] / o.kernel[1];
        const Index ix = ox * o.stride[1] - o.padding[1] + where[out + c] % o.kernel[1];
        y[out + c] = convert<U>(x[((n * g.height + iy) * g.width + ix) * g.channels + c]);
      }
    }
  });
}

// The common case: positions in a byte, channels a multiple of 16, f32 arithmetic. A few vectors of channels
// stay in registers.
template <class T>
inline constexpr bool has_vectors_v = !std::is_same_v<T, double>;
#if defined(TANDEM_SIMD_AVX512)
constexpr int kVectorsAtOnce = 4;
#else
constexpr int kVectorsAtOnce = 2;
#endif

template <int V, class T>
void max_window(const Geometry& g, const Pool2dOptions& o, const T* x, Range ys, Range xs, Index top,
                Index left, T* y, std::uint8_t* where) {
  Vec best[V], position[V];
  const auto first = static_cast<float>((ys.first - top) * o.kernel[1] + xs.first - left);
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    best[v] = load(x + (ys.first * g.width + xs.first) * g.channels + v * kLanes);
    position[v] = broadcast(first);
  }
  for (Index iy = ys.first; iy < ys.last; ++iy) {
    for (Index ix = xs.first; ix < xs.last; ++ix) {
      const Vec here = broadcast(static_cast<float>((iy - top) * o.kernel[1] + ix - left));
      const T* from = x + (iy * g.width + ix) * g.channels;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Vec value = load(from + v * kLanes);
        const Mask take = exceeds(value, best[v]);
        best[v] = select(take, value, best[v]);
        position[v] = select(take, here, position[v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    store(y + v * kLanes, best[v]);
    store_bytes(where + v * kLanes, position[v]);
  }
}

template <class T>
void max_forward_vectors(const Geometry& g, const Pool2dOptions& o, const T* x, T* y, std::uint8_t* where) {
  for_each_row(g.batch * g.out_height, [&](Index row) {
    const Index oy = row % g.out_height;
    const T* image = x + row / g.out_height * g.height * g.width * g.channels;
    const Range ys = window(oy, o.kernel[0], o.stride[0], o.padding[0], g.height);
    for (Index ox = 0; ox < g.out_width; ++ox) {
      const Range xs = window(ox, o.kernel[1], o.stride[1], o.padding[1], g.width);
      const Index top = oy * o.stride[0] - o.padding[0], left = ox * o.stride[1] - o.padding[1];
      const Index out = (row * g.out_width + ox) * g.channels;
      Index c = 0;
      for (; c + kVectorsAtOnce * kLanes <= g.channels; c += kVectorsAtOnce * kLanes)
        max_window<kVectorsAtOnce>(g, o, image + c, ys, xs, top, left, y + out + c, where + out + c);
      for (; c < g.channels; c += kLanes)
        max_window<1>(g, o, image + c, ys, xs, top, left, y + out + c, where + out + c);
    }
  });
}

template <int V, class T, class U>
void max_gather(const Geometry& g, const Pool2dOptions& o, const U* dy, const std::uint8_t* where, Range ys,
                Range xs, Index iy, Index ix, T* dx) {
  Vec sum[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) sum[v] = zero();
  for (Index oy = ys.first; oy < ys.last; ++oy) {
    for (Index ox = xs.first; ox < xs.last; ++ox) {
      const Index at = (oy * g.out_width + ox) * g.channels;
      const auto here = static_cast<std::uint8_t>((iy - oy * o.stride[0] + o.padding[0]) * o.kernel[1] + ix -
                                                  ox * o.stride[1] + o.padding[1]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Mask from_here = equal_bytes(where + at + v * kLanes, here);
        sum[v] = sum[v] + select(from_here, load(dy + at + v * kLanes), zero());
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) store(dx + v * kLanes, sum[v]);
}

template <class T, class U>
void max_backward_vectors(const Geometry& g, const Pool2dOptions& o, const U* dy, const std::uint8_t* where,
                          T* dx) {
  for_each_row(g.batch * g.height, [&](Index row) {
    const Index iy = row % g.height, image = row / g.height * g.out_height * g.out_width * g.channels;
    const Range ys = covering(iy, o.kernel[0], o.stride[0], o.padding[0], g.out_height);
    for (Index ix = 0; ix < g.width; ++ix) {
      const Range xs = covering(ix, o.kernel[1], o.stride[1], o.padding[1], g.out_width);
      T* to = dx + (row * g.width + ix) * g.channels;
      Index c = 0;
      for (; c + kVectorsAtOnce * kLanes <= g.channels; c += kVectorsAtOnce * kLanes)
        max_gather<kVectorsAtOnce>(g, o, dy + image + c, where + image + c, ys, xs, iy, ix, to + c);
      for (; c < g.channels; c += kLanes)
        max_gather<1>(g, o, dy + image + c, where + image + c, ys, xs, iy, ix, to + c);
    }
  });
}

// Calls visit with a pointer to the positions in their integer type.
template <class Visit>
void visit_where(const Tensor& where, Visit&& visit) {
  if (where.dtype() == DType::u8) return visit(where.data<std::uint8_t>());
  ensure(where.dtype() == DType::i32, "max_pool2d", "positions are u8 or i32, not {}",
         name_of(where.dtype()));
  visit(where.data<std::int32_t>());
}

// ---- average

// The reciprocal of the number of counted elements in the window.
double average_factor(const Pool2dOptions& o, const Geometry& g, Index oy, Index ox) {
  Index rows = 0, columns = 0;
  if (o.count_include_pad) {
    // The window is clipped to the padded image.
    const Index top = oy * o.stride[0] - o.padding[0], left = ox * o.stride[1] - o.padding[1];
    rows = std::min(top + o.kernel[0], g.height + o.padding[0]) - top;
    columns = std::min(left + o.kernel[1], g.width + o.padding[1]) - left;
  } else {
    const Range ys = window(oy, o.kernel[0], o.stride[0], o.padding[0], g.height);
    const Range xs = window(ox, o.kernel[1], o.stride[1], o.padding[1], g.width);
    rows = ys.last - ys.first;
    columns = xs.last - xs.first;
  }
  return 1.0 / static_cast<double>(rows * columns);
}

// Windows of average pooling: of a fixed size, or adaptive without options.
struct AverageWindows {
  const Geometry& g;
  const Pool2dOptions* o = nullptr;

  Range along(int axis, Index out, Index extent, Index out_extent) const {
    return o ? window(out, o->kernel[axis], o->stride[axis], o->padding[axis], extent)
             : adaptive_window(out, extent, out_extent);
  }
  Range covering_along(int axis, Index in, Index extent, Index out_extent) const {
    return o ? covering(in, o->kernel[axis], o->stride[axis], o->padding[axis], out_extent)
             : adaptive_covering(in, extent, out_extent);
  }
  Range rows(Index oy) const { return along(0, oy, g.height, g.out_height); }
  Range columns(Index ox) const { return along(1, ox, g.width, g.out_width); }
  Range covering_rows(Index iy) const { return covering_along(0, iy, g.height, g.out_height); }
  Range covering_columns(Index ix) const { return covering_along(1, ix, g.width, g.out_width); }
  double factor(Index oy, Index ox) const {
    if (o) return average_factor(*o, g, oy, ox);
    const Range ys = rows(oy), xs = columns(ox);
    return 1.0 / static_cast<double>((ys.last - ys.first) * (xs.last - xs.first));
  }
};

template <class T, class U>
void average_forward(const Geometry& g, const AverageWindows& windows, const T* x, U* y) {
  using C = std::common_type_t<ComputeType<T>, ComputeType<U>>;
  for_each_row(g.batch * g.out_height, [&](Index row) {
    const Index n = row / g.out_height, oy = row % g.out_height;
    const Range ys = windows.rows(oy);
    for (Index ox = 0; ox < g.out_width; ++ox) {
      const Range xs = windows.columns(ox);
      const C factor = static_cast<C>(windows.factor(oy, ox));
      U* to = y + (row * g.out_width + ox) * g.channels;
      for_each_chunk(g.channels, [&](Index c, Index count) {
        C sum[kChunk] = {};
        for (Index iy = ys.first; iy < ys.last; ++iy) {
          for (Index ix = xs.first; ix < xs.last; ++ix) {
            const T* from = x + ((n * g.height + iy) * g.width + ix) * g.channels + c;
            for (Index i = 0; i < count; ++i) sum[i] += static_cast<C>(convert<ComputeType<T>>(from[i]));
          }
        }
        for (Index i = 0; i < count; ++i) to[c + i] = convert<U>(sum[i] * factor);
      });
    }
  });
}

template <class T, class U>
void average_backward(const Geometry& g, const AverageWindows& windows, const U* dy, T* dx) {
  using C = std::common_type_t<ComputeType<T>, ComputeType<U>>;
  for_each_row(g.batch * g.height, [&](Index row) {
    const Index n = row / g.height, iy = row % g.height;
    const Range ys = windows.covering_rows(iy);
    for (Index ix = 0; ix < g.width; ++ix) {
      const Range xs = windows.covering_columns(ix);
      T* to = dx + (row * g.width + ix) * g.channels;
      for_each_chunk(g.channels, [&](Index c, Index count) {
        C sum[kChunk] = {};
        for (Index oy = ys.first; oy < ys.last; ++oy) {
          for (Index ox = xs.first; ox < xs.last; ++ox) {
            const C factor = static_cast<C>(windows.factor(oy, ox));
            const U* from = dy + ((n * g.out_height + oy) * g.out_width + ox) * g.channels + c;
            for (Index i = 0; i < count; ++i)
              sum[i] += factor * static_cast<C>(convert<ComputeType<U>>(from[i]));
          }
        }
        for (Index i = 0; i < count; ++i) to[c + i] = convert<T>(sum[i]);
      });
    }
  });
}

// Calls visit(a's pointer, b's pointer) with the element types of two floating tensors: f64 twice, or not at
// all.
template <class Visit>
void visit_two(const Tensor& a, const Tensor& b, Visit&& visit) {
  visit_floating(a.dtype(), [&]<class A>(TypeTag<A>) {
    visit_floating(b.dtype(), [&]<class B>(TypeTag<B>) {
      if constexpr (std::is_same_v<A, double> == std::is_same_v<B, double>) {
        visit(a.data<A>(), b.data<B>());
      } else {
        ensure(false, "pooling", "f64 pools to f64 alone, not {} with {}", to_string(a), to_string(b));
      }
    });
  });
}

struct CpuPool final : PoolKernels {
  void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& where,
                  const Pool2dOptions& options) override {
    if (y.numel() == 0) return;
    ensure(x.dtype() == y.dtype(), "max_pool2d", "input {} and output {} differ in dtype", to_string(x),
           to_string(y));
    const Geometry g = geometry_of(x, y);
    visit_floating(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (has_vectors_v<T>) {
        if (where.dtype() == DType::u8 && g.channels % kLanes == 0)
          return max_forward_vectors(g, options, x.data<T>(), y.data<T>(), where.data<std::uint8_t>());
      }
      visit_where(where,
                  [&](auto* positions) { max_forward(g, options, x.data<T>(), y.data<T>(), positions); });
    });
  }

  void max_pool2d_backward(const Tensor& dy, const Tensor& where, const Tensor& dx,
                           const Pool2dOptions& options) override {
    if (dx.numel() == 0) return;
    const Geometry g = geometry_of(dx, dy);
    visit_two(dx, dy, [&](auto* to, auto* from) {
      if constexpr (has_vectors_v<std::remove_reference_t<decltype(*to)>> &&
                    has_vectors_v<std::remove_reference_t<decltype(*from)>>) {
        if (where.dtype() == DType::u8 && g.channels % kLanes == 0)
          return max_backward_vectors(g, options, from, where.data<std::uint8_t>(), to);
      }
      visit_where(where, [&](auto* positions) { max_backward(g, options, from, positions, to); });
    });
  }

  void max_pool2d_select(const Tensor& x, const Tensor& where, const Tensor& y,
                         const Pool2dOptions& options) override {
    if (y.numel() == 0) return;
    const Geometry g = geometry_of(x, y);
    visit_two(x, y, [&](auto* from, auto* to) {
      visit_where(where, [&](auto* positions) { max_select(g, options, from, positions, to); });
    });
  }

  void avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dOptions& options) override {
    if (y.numel() == 0) return;
    const Geometry g = geometry_of(x, y);
    visit_two(x, y, [&](auto* from, auto* to) { average_forward(g, AverageWindows{g, &options}, from, to); });
  }

  void avg_pool2d_backward(const Tensor& dy, const Tensor& dx, const Pool2dOptions& options) override {
    if (dx.numel() == 0) return;
    const Geometry g = geometry_of(dx, dy);
    visit_two(dx, dy, [&](auto* to, auto* from) {
      average_backward(g, AverageWindows{g, &options}, from, to);
    });
  }

  void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) override {
    if (y.numel() == 0) return;
    const Geometry g = geometry_of(x, y);
    visit_two(x, y, [&](auto* from, auto* to) { average_forward(g, AverageWindows{g}, from, to); });
  }

  void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) override {
    if (dx.numel() == 0) return;
    const Geometry g = geometry_of(dx, dy);
    visit_two(dx, dy, [&](auto* to, auto* from) { average_backward(g, AverageWindows{g}, from, to); });
  }
};

}  // namespace

PoolKernels& CpuBackend::pool() { return instance<CpuPool>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
