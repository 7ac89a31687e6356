// Inner loops of batch norm.
//
// A tensor [rows, C] is viewed as a flat array with a period of `width` elements, a multiple of C and of
// kLanes. Lane l of every period belongs to channel l % C, coefficients are arrays of `width` values, and the
// mask bits of a vector are adjacent for any C. The `tail` is the elements after the last whole period.
//
// Two sets of kernels have the same functions: VectorKernels<S> for tensors that all have storage type S, and
// MixedKernels<T> for mixed dtypes, computed in T.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/cpu/kernels/blocks.h"
#include "core/kernels/norm.h"

namespace tandem::cpu::TANDEM_LEVEL {

struct CpuNorm final : NormKernels {
  void batch_norm_train(const BatchNormForward& args) override;
  void batch_norm_infer(const BatchNormForward& args) override;
  void batch_norm_backward(const BatchNormBackward& args) override;
  void layer_norm(const RowNormForward& args) override;
  void layer_norm_backward(const RowNormBackward& args) override;
  void residual_norm(const ResidualNormForward& args) override;
  void residual_norm_backward(const ResidualNormBackward& args) override;
  void group_norm(const RowNormForward& args) override;
  void group_norm_backward(const RowNormBackward& args) override;
};

struct NormPeriod {
  Index channels = 0, rows = 0;
  Index width = 0;
  Index periods = 0;  // whole periods
  Index tail = 0;     // elements after them

  NormPeriod(Index rows_, Index channels_) : channels(channels_), rows(rows_) {
    width = std::lcm(channels, Index{kLanes});
    while (width < 8 * kLanes) width *= 2;
    periods = rows * channels / width;
    tail = rows * channels % width;
  }
};

// Periods per chunk: sums of a chunk are merged into f64, and a pass processes one chunk at a time.
inline constexpr Index kPeriodsPerChunk = 64;

// Sums of one thread, arrays of `width` lanes. Forward: the shifted sums of core/cpu/kernels/moments.h.
// Backward: Σ g, and Σ g·(x - mean) as squares.
template <class T>
struct NormSums {
  T *chunk_sum, *chunk_squares;
  T* shift;  // forward only
  double *sum, *squares;
};

// Tensors and coefficients of y = act((x-centre)·scale + offset + residual).
template <class T>
struct NormApply {
  Tensor x, residual, y;
  std::uint8_t* mask = nullptr;  // optional output
  const T *centre, *scale, *offset;
  bool relu = false;
  bool stream = false;  // y is larger than the caches: use non-temporal stores
};

// g = dy where the mask is set; dx = g·scale + (x-centre)·slope + offset; dresidual = g.
template <class T>
struct NormBackward {
  Tensor x, dy, dx, dresidual;
  const std::uint8_t* mask = nullptr;  // null: g = dy
  const T *centre, *scale, *slope, *offset;
  bool accumulate_dx = false, accumulate_dresidual = false;
  bool stream = false;
};

namespace detail {

inline std::uint32_t mask_at(const std::uint8_t* mask, Index element) {
  std::uint16_t bits;
  std::memcpy(&bits, mask + element / 8, sizeof(bits));
  return bits;
}
inline void set_mask(std::uint8_t* mask, Index element, std::uint32_t bits) {
  const auto half = static_cast<std::uint16_t>(bits);
  std::memcpy(mask + element / 8, &half, sizeof(half));
}

// Calls run<flags…>().
template <bool... kSet, class Run, class... Flags>
void with_flags(const Run& run, bool flag, Flags... rest) {
  if constexpr (sizeof...(rest) == 0) {
    flag ? run.template operator()<kSet..., true>() : run.template operator()<kSet..., false>();
  } else {
    flag ? with_flags<kSet..., true>(run, rest...) : with_flags<kSet..., false>(run, rest...);
  }
}

}  // namespace detail

template <class S>
struct VectorKernels {
  using T = float;

  static const S* at(const Tensor& t, Index element) { return t.data<S>() + element; }

  // chunk_sum += x - shift, chunk_squares += (x - shift)² over `count` whole periods from `period` on.
  static void statistics(const NormPeriod& p, const Tensor& x, Index period, Index count,
                         const NormSums<T>& sums) {
    const S* data = at(x, period * p.width);
    if (p.width == 8 * kLanes) return statistics8(data, count, sums);
    Index i = 0;
    for (; i + 4 <= count; i += 4) statistics_rows<4>(data + i * p.width, p.width, sums);
    for (; i < count; ++i) statistics_rows<1>(data + i * p.width, p.width, sums);
  }

  // chunk_sum += g, chunk_squares += g·(x - centre).
  static void gradient_sums(const NormPeriod& p, const NormBackward<T>& a, Index period, Index count,
                            const NormSums<T>& sums) {
    const Index start = period * p.width;
    if (p.width == 8 * kLanes) {
      a.mask ? gradient_sums8<true>(a, start, count, sums) : gradient_sums8<false>(a, start, count, sums);
      return;
    }
    detail::with_flags(
        [&]<bool kMask>() {
          Index i = 0;
          for (; i + 4 <= count; i += 4) gradient_rows<4, kMask>(a, start + i * p.width, p.width, sums);
          for (; i < count; ++i) gradient_rows<1, kMask>(a, start + i * p.width, p.width, sums);
        },
        a.mask != nullptr);
  }

  static void apply(const NormPeriod& p, const NormApply<T>& a, Index period, Index count) {
    detail::with_flags(
        [&]<bool... kSet>() { apply_with<kSet...>(p, a, period, count); }, a.relu, a.residual.defined(),
        a.stream);
  }

  static void backward(const NormPeriod& p, const NormBackward<T>& a, Index period, Index count) {
    detail::with_flags(
        [&]<bool... kSet>() { backward_with<kSet...>(p, a, period, count); }, a.mask != nullptr,
        a.dresidual.defined(), a.stream);
  }

 private:
  // Eight vectors of sums in registers.
  static void statistics8(const S* data, Index count, const NormSums<T>& sums) {
    Vec s0 = zero(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    Vec q0 = s0, q1 = s0, q2 = s0, q3 = s0, q4 = s0, q5 = s0, q6 = s0, q7 = s0;
    const float* k = sums.shift;
    const auto step = [&](const S* x, int i, Vec& s, Vec& q) {
      const Vec d = load(x + i * kLanes) - load(k + i * kLanes);
      s = s + d;
      q = fma(d, d, q);
    };
    for (Index i = 0; i < count; ++i) {
      const S* x = data + i * 8 * kLanes;
      step(x, 0, s0, q0), step(x, 1, s1, q1), step(x, 2, s2, q2), step(x, 3, s3, q3);
      step(x, 4, s4, q4), step(x, 5, s5, q5), step(x, 6, s6, q6), step(x, 7, s7, q7);
    }
    add_to(sums.chunk_sum, {s0, s1, s2, s3, s4, s5, s6, s7});
    add_to(sums.chunk_squares, {q0, q1, q2, q3, q4, q5, q6, q7});
  }

  template <bool kMask>
  static void gradient_sums8(const NormBackward<T>& a, Index start, Index count, const NormSums<T>& sums) {
    Vec s0 = zero(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    Vec q0 = s0, q1 = s0, q2 = s0, q3 = s0, q4 = s0, q5 = s0, q6 = s0, q7 = s0;
    const auto step = [&](Index first, int i, Vec& s, Vec& q) {
      const Index o = first + i * kLanes;
      const Vec g = masked<kMask>(a, o);
      s = s + g;
      q = fma(g, load(at(a.x, o)) - load(a.centre + i * kLanes), q);
    };
    for (Index i = 0; i < count; ++i) {
      const Index o = start + i * 8 * kLanes;
      step(o, 0, s0, q0), step(o, 1, s1, q1), step(o, 2, s2, q2), step(o, 3, s3, q3);
      step(o, 4, s4, q4), step(o, 5, s5, q5), step(o, 6, s6, q6), step(o, 7, s7, q7);
    }
    add_to(sums.chunk_sum, {s0, s1, s2, s3, s4, s5, s6, s7});
    add_to(sums.chunk_squares, {q0, q1, q2, q3, q4, q5, q6, q7});
  }

  static void add_to(float* sums, std::initializer_list<Vec> values) {
    for (const Vec& v : values) {
      store(sums, load(sums) + v);
      sums += kLanes;
    }
  }

  template <bool kMask>
  static Vec masked(const NormBackward<T>& a, Index o) {
    const Vec g = load(at(a.dy, o));
    if constexpr (kMask) return keep(detail::mask_at(a.mask, o), g);
    return g;
  }

  template <int kRows>
  static void statistics_rows(const S* data, Index width, const NormSums<T>& sums) {
    for (Index l = 0; l < width; l += kLanes) {
      const Vec k = load(sums.shift + l);
      Vec s = load(sums.chunk_sum + l), q = load(sums.chunk_squares + l);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vec d = load(data + r * width + l) - k;
        s = s + d;
        q = fma(d, d, q);
      }
      store(sums.chunk_sum + l, s);
      store(sums.chunk_squares + l, q);
    }
  }

  template <int kRows, bool kMask>
  static void gradient_rows(const NormBackward<T>& a, Index start, Index width, const NormSums<T>& sums) {
    for (Index l = 0; l < width; l += kLanes) {
      const Vec k = load(a.centre + l);
      Vec s = load(sums.chunk_sum + l), q = load(sums.chunk_squares + l);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Index o = start + r * width + l;
        const Vec g = masked<kMask>(a, o);
        s = s + g;
        q = fma(g, load(at(a.x, o)) - k, q);
      }
      store(sums.chunk_sum + l, s);
      store(sums.chunk_squares + l, q);
    }
  }

  template <bool kRelu, bool kResidual, bool kStream>
  static void apply_with(const NormPeriod& p, const NormApply<T>& a, Index period, Index count) {
    const S* x = a.x.data<S>();
    const S* residual = kResidual ? a.residual.data<S>() : nullptr;
    S* y = a.y.data<S>();
    for (Index i = 0; i < count; ++i) {
      const Index start = (period + i) * p.width;
      for (Index l = 0; l < p.width; l += kLanes) {
        const Index o = start + l;
        Vec v = fma(load(x + o) - load(a.centre + l), load(a.scale + l), load(a.offset + l));
        if constexpr (kResidual) v = v + load(residual + o);
        if constexpr (kRelu) {
          if (a.mask) detail::set_mask(a.mask, o, positive(v));
          v = max(zero(), v);
        }
        if constexpr (kStream) {
          TANDEM_LEVEL::stream(y + o, v);
        } else {
          store(y + o, v);
        }
      }
    }
  }

  template <bool kMask, bool kResidual, bool kStream>
  static void backward_with(const NormPeriod& p, const NormBackward<T>& a, Index period, Index count) {
    const S* x = a.x.data<S>();
    S* dx = a.dx.defined() ? a.dx.data<S>() : nullptr;
    S* dresidual = kResidual ? a.dresidual.data<S>() : nullptr;
    for (Index i = 0; i < count; ++i) {
      const Index start = (period + i) * p.width;
      for (Index l = 0; l < p.width; l += kLanes) {
        const Index o = start + l;
        const Vec g = masked<kMask>(a, o);
        if constexpr (kResidual) store(dresidual + o, a.accumulate_dresidual ? load(dresidual + o) + g : g);
        if (!dx) continue;
        const Vec rest = fma(load(x + o) - load(a.centre + l), load(a.slope + l), load(a.offset + l));
        Vec v = fma(g, load(a.scale + l), rest);
        if (a.accumulate_dx) v = v + load(dx + o);
        if constexpr (kStream) {
          TANDEM_LEVEL::stream(dx + o, v);
        } else {
          store(dx + o, v);
        }
      }
    }
  }
};

template <class Type>
struct MixedKernels {
  using T = Type;

  static void statistics(const NormPeriod& p, const Tensor& x, Index period, Index count,
                         const NormSums<T>& sums) {
    over_blocks(p, period, count, [&](Index o, Index l, Index n) {
      T buffer[kBlock];
      load_block(x.raw(), x.dtype(), o, buffer, n);
      for (Index i = 0; i < n; ++i) {
        const T d = buffer[i] - sums.shift[l + i];
        sums.chunk_sum[l + i] += d;
        sums.chunk_squares[l + i] += d * d;
      }
    });
  }

  static void gradient_sums(const NormPeriod& p, const NormBackward<T>& a, Index period, Index count,
                            const NormSums<T>& sums) {
    over_blocks(p, period, count, [&](Index o, Index l, Index n) {
      T x[kBlock], g[kBlock];
      load_block(a.x.raw(), a.x.dtype(), o, x, n);
      load_gradient(a, o, g, n);
      for (Index i = 0; i < n; ++i) {
        sums.chunk_sum[l + i] += g[i];
        sums.chunk_squares[l + i] += g[i] * (x[i] - a.centre[l + i]);
      }
    });
  }

  static void apply(const NormPeriod& p, const NormApply<T>& a, Index period, Index count) {
    over_blocks(p, period, count, [&](Index o, Index l, Index n) { apply_block(a, o, l, n); });
  }
  static void backward(const NormPeriod& p, const NormBackward<T>& a, Index period, Index count) {
    over_blocks(p, period, count, [&](Index o, Index l, Index n) { backward_block(a, o, l, n); });
  }

  // Elements [o, o+n), which are lanes l… of their period; n <= kBlock and o is a multiple of 8.
  static void apply_block(const NormApply<T>& a, Index o, Index l, Index n) {
    T v[kBlock], residual[kBlock];
    load_block(a.x.raw(), a.x.dtype(), o, v, n);
    for (Index i = 0; i < n; ++i) v[i] = (v[i] - a.centre[l + i]) * a.scale[l + i] + a.offset[l + i];
    if (a.residual.defined()) {
      load_block(a.residual.raw(), a.residual.dtype(), o, residual, n);
      for (Index i = 0; i < n; ++i) v[i] += residual[i];
    }
    if (a.relu) {
      if (a.mask) {
        for (Index i = 0; i < n; i += 8) {
          unsigned bits = 0;
          for (Index j = i; j < std::min(n, i + 8); ++j)
            bits |= static_cast<unsigned>(v[j] > T(0)) << (j - i);
          a.mask[(o + i) / 8] = static_cast<std::uint8_t>(bits);
        }
      }
      for (Index i = 0; i < n; ++i) v[i] = v[i] < T(0) ? T(0) : v[i];
    }
    store_block(v, a.y.raw(), a.y.dtype(), o, n);
  }

  static void backward_block(const NormBackward<T>& a, Index o, Index l, Index n) {
    T x[kBlock], g[kBlock];
    load_gradient(a, o, g, n);
    load_block(a.x.raw(), a.x.dtype(), o, x, n);
    for (Index i = 0; i < n; ++i)
      x[i] = g[i] * a.scale[l + i] + ((x[i] - a.centre[l + i]) * a.slope[l + i] + a.offset[l + i]);
    put(g, a.dresidual, a.accumulate_dresidual, o, n);
    put(x, a.dx, a.accumulate_dx, o, n);
  }

  static void load_gradient(const NormBackward<T>& a, Index o, T* g, Index n) {
    load_block(a.dy.raw(), a.dy.dtype(), o, g, n);
    if (!a.mask) return;
    for (Index i = 0; i < n; ++i) {
      if ((a.mask[(o + i) / 8] >> ((o + i) % 8) & 1) == 0) g[i] = T(0);
    }
  }

 private:
  static void put(T* values, const Tensor& target, bool accumulate, Index o, Index n) {
    if (!target.defined()) return;
    accumulate ? add_block(values, target.raw(), target.dtype(), o, n)
               : store_block(values, target.raw(), target.dtype(), o, n);
  }

  template <class Body>
  static void over_blocks(const NormPeriod& p, Index period, Index count, Body&& body) {
    for (Index i = period; i < period + count; ++i) {
      for (Index l = 0; l < p.width; l += kBlock) body(i * p.width + l, l, std::min(kBlock, p.width - l));
    }
  }
};

}  // namespace tandem::cpu::TANDEM_LEVEL
