// Passes over columns for batch norm and group norm (norm_columns.h).
//
// Forward: a pass over x computes statistics, a small kernel combines the slices and computes coefficients,
// and a pass writes y = act((x-mean)·scale + offset + residual) and the mask. Backward: the same with Σ g and
// Σ g·(x-mean). Statistics are f32 within a slice: Welford's method in batches of four rows, relative to an
// element of x, combined by the formula of Chan, Golub and LeVeque in a fixed tree. Slices are combined in
// f64. There is no cancellation for any mean.
//
// Sizes, for ResNet-50 on 132 multiprocessors (SMs). A thread has eight channels: one or two accesses of 16
// bytes and one mask byte. A block has 256 threads. A pass needs some 24 KB in flight per SM (4.8 TB/s times
// 0.65 µs); statistics have 64 KB (4 blocks, 4 rows per thread, 64 registers), gradients 96 KB (3 blocks, 4
// rows of x and dy in 16 bits). Reduction passes run one wave of blocks, or two if a thread still has 32 rows
// or more: at most 1056 blocks write 12 bytes for each of at most 256 channels, 3 MB beside 411 MB of x in
// the first stage, 1.2 MB beside 51 MB in the last, mostly in L2. Writing passes start with the rows that the
// reduction pass read last, and use streaming stores for large tensors, so that cached rows of x are not read
// twice from memory. They run in many small blocks (16 or more rows per thread) that finish at nearly the
// same time.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/norm_columns.h"
#include "core/cuda/numeric.h"
#include "core/kernels/formulas.h"

namespace tandem::cuda {

namespace {

constexpr int kWidth = kColumnWidth;
constexpr int kStatisticsRows = 4;               // rows per batch
constexpr std::size_t kLargeBytes = 16u << 20u;  // minimum output size for streaming stores

// Rows per batch: two 16-byte accesses of x and as many of dy (or of the residual) are in flight.
template <class S>
inline constexpr int kGradientRows = is_half_v<S> ? 4 : 2;
template <class S>
inline constexpr int kForwardRows = is_half_v<S> ? 4 : 2;
template <class S>
inline constexpr int kBackwardRows = is_half_v<S> ? 2 : 1;
// Resident blocks per multiprocessor, limited by registers.
template <class S>
inline constexpr int kStatisticsBlocks = is_half_v<S> ? 4 : 3;
constexpr int kGradientBlocks = 3;

// ---- Access

// Eight elements of type S.
template <class S>
struct Eight {
  using T = float;
  using Raw = Pack<S, kWidth>;
  static constexpr int width = kWidth;
  static constexpr int gradient_rows = kGradientRows<S>;
  static constexpr int statistics_blocks = kStatisticsBlocks<S>;
  static __device__ __forceinline__ Raw fetch(const Slot& t, Index i) {
    return *reinterpret_cast<const Raw*>(static_cast<const S*>(t.data) + i);
  }
  static __device__ __forceinline__ T value(const Raw& raw, int i) { return load(&raw.value[i]); }
};

// One element of any type, in compute type C.
template <class C>
struct One {
  using T = C;
  using Raw = C;
  static constexpr int width = 1;
  static constexpr int gradient_rows = 2;
  static constexpr int statistics_blocks = 4;
  static __device__ __forceinline__ Raw fetch(const Slot& t, Index i) {
    return load_any<C>(t.data, t.dtype, i);
  }
  static __device__ __forceinline__ T value(const Raw& raw, int) { return raw; }
};

// The 16-byte words of a pack, for accesses with an evict-first cache hint.
template <class P>
struct Words {
  static constexpr int count = sizeof(P) / sizeof(int4);
  int4 word[count];
};
template <class P>
__device__ __forceinline__ P load_last(const P* address) {
  Words<P> words;
#pragma unroll
  for (int i = 0; i < Words<P>::count; ++i)
    words.word[i] = __ldcs(reinterpret_cast<const int4*>(address) + i);
  return std::bit_cast<P>(words);
}
template <class P>
__device__ __forceinline__ void store_pack(P* address, const P& value, bool around_cache) {
  if (!around_cache) {
    *address = value;
    return;
  }
  const auto words = std::bit_cast<Words<P>>(value);
#pragma unroll
  for (int i = 0; i < Words<P>::count; ++i) __stcs(reinterpret_cast<int4*>(address) + i, words.word[i]);
}

// ---- Reduction passes

// Merges `count` values with the given mean and sum of squared deviations into statistics of `before` values;
// share is count / (before + count).
template <class T>
__device__ __forceinline__ void merge(T& mean, T& squares, T before, T share, T other_mean, T other_squares) {
  const T delta = other_mean - mean;
  mean += delta * share;
  squares += other_squares + delta * delta * (before * share);
}

// Position of a thread in a reduction pass.
struct Place {
  int lane;
  Index channel;
  bool active;
};
__device__ __forceinline__ Place place_of(const ColumnPlan& p) {
  const int column = static_cast<int>(threadIdx.x) % p.columns;
  const int lane = static_cast<int>(threadIdx.x) / p.columns;
  const Index channel = (Index{blockIdx.x} * p.columns + column) * p.width;
  return {lane, channel, lane < p.lanes && channel < p.channels};
}

template <class A>
__global__ void __launch_bounds__(kThreads, A::statistics_blocks)
    statistics_kernel(Slot x, ColumnPlan p, typename A::T* partial) {
  await_earlier_work();
  using T = typename A::T;
  constexpr int W = A::width, R = kStatisticsRows;
  __shared__ T held[2][W][kThreads];
  __shared__ int counts[kThreads];
  const auto [lane, channel, active] = place_of(p);
  const int thread = static_cast<int>(threadIdx.x);
  for (Index sample = blockIdx.z; sample < p.samples; sample += gridDim.z) {
    T origin[W] = {}, mean[W] = {}, squares[W] = {};
    int count = 0;
    if (active) {
      const Index base = sample * p.rows * p.channels + channel;
      const Index step = p.lanes * p.channels;
      const typename A::Raw first = A::fetch(x, base + blockIdx.y * p.chunk * p.channels);
#pragma unroll
      for (int j = 0; j < W; ++j) origin[j] = A::value(first, j);
      for (Index chunk = blockIdx.y; chunk < p.chunks; chunk += gridDim.y) {
        const Index row = chunk * p.chunk + lane, at = base + row * p.channels;
        if (row + (R - 1) * p.lanes < p.rows) {
          typename A::Raw in[R];
#pragma unroll
          for (int u = 0; u < R; ++u) in[u] = A::fetch(x, at + u * step);
          const T before = static_cast<T>(count), share = T(R) / (before + T(R));
#pragma unroll
          for (int j = 0; j < W; ++j) {
            T d[R], total = 0, own = 0;
#pragma unroll
            for (int u = 0; u < R; ++u) {
              d[u] = A::value(in[u], j) - origin[j];
              total += d[u];
            }
            const T middle = total * (T(1) / T(R));
#pragma unroll
            for (int u = 0; u < R; ++u) own += (d[u] - middle) * (d[u] - middle);
            merge(mean[j], squares[j], before, share, middle, own);
          }
          count += R;
        } else {
          for (int u = 0; u < R && row + u * p.lanes < p.rows; ++u) {
            const typename A::Raw in = A::fetch(x, at + u * step);
            const T before = static_cast<T>(count), share = T(1) / (before + T(1));
#pragma unroll
            for (int j = 0; j < W; ++j)
              merge(mean[j], squares[j], before, share, A::value(in, j) - origin[j], T(0));
            ++count;
          }
        }
      }
    }
    counts[thread] = count;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      held[0][j][thread] = mean[j];
      held[1][j][thread] = squares[j];
    }
    lane_tree(p.lanes, [&](int distance) {
      if (!active || lane >= distance || lane + distance >= p.lanes) return;
      const int other = thread + distance * p.columns, theirs = counts[other];
      if (theirs == 0) return;
      const T before = static_cast<T>(count);
      count += theirs;
      const T share = static_cast<T>(theirs) / static_cast<T>(count);
#pragma unroll
      for (int j = 0; j < W; ++j) {
        merge(mean[j], squares[j], before, share, held[0][j][other], held[1][j][other]);
        held[0][j][thread] = mean[j];
        held[1][j][thread] = squares[j];
      }
      counts[thread] = count;
    });
    if (active && lane == 0) {
      T* to = partial + (sample * 3 * p.slices + blockIdx.y) * p.channels + channel;
      const Index plane = p.slices * p.channels;
#pragma unroll
      for (int j = 0; j < W; ++j) {
        to[j] = origin[j];
        to[plane + j] = mean[j];
        to[2 * plane + j] = squares[j];
      }
    }
  }
}

// Mask bits of a thread's elements, the first in bit 0.
template <int W>
__device__ __forceinline__ unsigned mask_bits(const std::uint8_t* mask, Index element) {
  return static_cast<unsigned>(mask[element / 8]) >> (W == 8 ? 0 : element % 8);
}

template <class A>
__global__ void __launch_bounds__(kThreads, kGradientBlocks)
    gradients_kernel(Slot x, Slot dy, const std::uint8_t* mask, const typename A::T* centres, ColumnPlan p,
                     typename A::T* partial) {
  await_earlier_work();
  using T = typename A::T;
  constexpr int W = A::width, R = A::gradient_rows;
  __shared__ T held[2][W][kThreads];
  const auto [lane, channel, active] = place_of(p);
  const int thread = static_cast<int>(threadIdx.x);
  for (Index sample = blockIdx.z; sample < p.samples; sample += gridDim.z) {
    T centre[W] = {}, sum[W] = {}, product[W] = {};
    if (active) {
      const Index base = sample * p.rows * p.channels + channel;
      const Index step = p.lanes * p.channels;
#pragma unroll
      for (int j = 0; j < W; ++j) centre[j] = centres[sample * p.channels + channel + j];
      for (Index chunk = blockIdx.y; chunk < p.chunks; chunk += gridDim.y) {
        const Index row = chunk * p.chunk + lane, at = base + row * p.channels;
        if (row + (R - 1) * p.lanes < p.rows) {
          typename A::Raw in[R], gradient[R];
          unsigned bits[R];
#pragma unroll
          for (int u = 0; u < R; ++u) {
            in[u] = A::fetch(x, at + u * step);
            gradient[u] = A::fetch(dy, at + u * step);
            bits[u] = ~0u;
          }
          if (mask != nullptr) {
#pragma unroll
            for (int u = 0; u < R; ++u) bits[u] = mask_bits<W>(mask, at + u * step);
          }
#pragma unroll
          for (int j = 0; j < W; ++j) {
            T sums = 0, products = 0;
#pragma unroll
            for (int u = 0; u < R; ++u) {
              const T g = bits[u] >> j & 1u ? A::value(gradient[u], j) : T(0);
              sums += g;
              products += g * (A::value(in[u], j) - centre[j]);
            }
            sum[j] += sums;
            product[j] += products;
          }
        } else {
          for (int u = 0; u < R && row + u * p.lanes < p.rows; ++u) {
            const typename A::Raw in = A::fetch(x, at + u * step), gradient = A::fetch(dy, at + u * step);
            const unsigned bits = mask != nullptr ? mask_bits<W>(mask, at + u * step) : ~0u;
#pragma unroll
            for (int j = 0; j < W; ++j) {
              const T g = bits >> j & 1u ? A::value(gradient, j) : T(0);
              sum[j] += g;
              product[j] += g * (A::value(in, j) - centre[j]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int j = 0; j < W; ++j) {
      held[0][j][thread] = sum[j];
      held[1][j][thread] = product[j];
    }
    lane_tree(p.lanes, [&](int distance) {
      if (!active || lane >= distance || lane + distance >= p.lanes) return;
      const int other = thread + distance * p.columns;
#pragma unroll
      for (int j = 0; j < W; ++j) {
        held[0][j][thread] = sum[j] += held[0][j][other];
        held[1][j][thread] = product[j] += held[1][j][other];
      }
    });
    if (active && lane == 0) {
      T* to = partial + (sample * 2 * p.slices + blockIdx.y) * p.channels + channel;
      const Index plane = p.slices * p.channels;
#pragma unroll
      for (int j = 0; j < W; ++j) {
        to[j] = sum[j];
        to[plane + j] = product[j];
      }
    }
  }
}

// ---- Writing passes

// The chunks of a block, numbered from the last, where the reduction pass ended.
struct ChunkRange {
  Index first, last;
};
__device__ __forceinline__ ChunkRange chunks_from_the_end(const ColumnPlan& p) {
  const Index first = (p.slices - 1 - blockIdx.y) * p.per_slice;
  return {first, min(first + p.per_slice, p.chunks)};
}

// Row u of a thread's batch, clamped to the last row: loads need no branch, and excess values are ignored.
__device__ __forceinline__ Index row_or_last(const ColumnPlan& p, Index row, int u) {
  return min(row + Index{u} * p.lanes, p.rows - 1);
}

template <int N>
__device__ __forceinline__ void load_coefficients(const float* from, Index stride, float (&to)[N][kWidth]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const auto pack = *reinterpret_cast<const Pack<float, kWidth>*>(from + k * stride);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) to[k][j] = pack.value[j];
  }
}

template <class S, bool kResidual>
__global__ void __launch_bounds__(kThreads, 3)
    forward_kernel(const S* x, const S* residual, S* y, std::uint8_t* mask, const float* coefficients,
                   ColumnPlan p, bool relu, bool around_cache) {
  await_earlier_work();
  using Values = Pack<S, kWidth>;
  constexpr int R = kForwardRows<S>;
  const auto [lane, channel, active] = place_of(p);
  if (!active) return;
  const auto [first, last] = chunks_from_the_end(p);
  const Index step = p.lanes * p.channels;
  for (Index sample = blockIdx.z; sample < p.samples; sample += gridDim.z) {
    float of[3][kWidth];  // centre, scale, offset
    load_coefficients(coefficients + sample * 3 * p.channels + channel, p.channels, of);
    const Index base = sample * p.rows * p.channels + channel;
    for (Index chunk = last - 1; chunk >= first; --chunk) {
      const Index row = chunk * p.chunk + lane, at = base + row * p.channels;
      Values in[R], other[R];
#pragma unroll
      for (int u = 0; u < R; ++u) {
        const Index from = base + row_or_last(p, row, u) * p.channels;
        in[u] = load_last(reinterpret_cast<const Values*>(x + from));
        if constexpr (kResidual) other[u] = load_last(reinterpret_cast<const Values*>(residual + from));
      }
#pragma unroll
      for (int u = 0; u < R; ++u) {
        if (row + u * p.lanes >= p.rows) continue;
        unsigned bits = 0;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          float v = (load(&in[u].value[j]) - of[0][j]) * of[1][j] + of[2][j];
          if constexpr (kResidual) v += load(&other[u].value[j]);
          bits |= static_cast<unsigned>(v > 0.0f) << j;
          if (relu) v = formulas::Relu::eval(formulas::Constants<float>{}, v);
          store(&in[u].value[j], v);
        }
        store_pack(reinterpret_cast<Values*>(y + at + u * step), in[u], around_cache);
        if (mask != nullptr) mask[(at + u * step) / kWidth] = static_cast<std::uint8_t>(bits);
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, 3)
    backward_kernel(const S* x, const S* dy, S* dx, S* dresidual, const std::uint8_t* mask,
                    const float* centres, const float* coefficients, ColumnPlan p, bool accumulate_dx,
                    bool accumulate_dresidual, bool around_cache) {
  await_earlier_work();
  using Values = Pack<S, kWidth>;
  constexpr int R = kBackwardRows<S>;
  const auto [lane, channel, active] = place_of(p);
  if (!active) return;
  const auto [first, last] = chunks_from_the_end(p);
  const Index step = p.lanes * p.channels;
  for (Index sample = blockIdx.z; sample < p.samples; sample += gridDim.z) {
    float of[3][kWidth], centre[1][kWidth];  // scale, slope, offset
    load_coefficients(coefficients + sample * 3 * p.channels + channel, p.channels, of);
    load_coefficients(centres + sample * p.channels + channel, 0, centre);
    const Index base = sample * p.rows * p.channels + channel;
    for (Index chunk = last - 1; chunk >= first; --chunk) {
      const Index row = chunk * p.chunk + lane, at = base + row * p.channels;
      Values in[R], gradient[R];
      unsigned bits[R];
      Index from[R];
#pragma unroll
      for (int u = 0; u < R; ++u) {
        from[u] = base + row_or_last(p, row, u) * p.channels;
        gradient[u] = load_last(reinterpret_cast<const Values*>(dy + from[u]));
        bits[u] = ~0u;
      }
      if (x != nullptr) {
#pragma unroll
        for (int u = 0; u < R; ++u) in[u] = load_last(reinterpret_cast<const Values*>(x + from[u]));
      }
      if (mask != nullptr) {
#pragma unroll
        for (int u = 0; u < R; ++u) bits[u] = mask[from[u] / kWidth];
      }
#pragma unroll
      for (int u = 0; u < R; ++u) {
        if (row + u * p.lanes >= p.rows) continue;
        float g[kWidth];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) g[j] = bits[u] >> j & 1u ? load(&gradient[u].value[j]) : 0.0f;
        if (dresidual != nullptr) {
          auto* to = reinterpret_cast<Values*>(dresidual + at + u * step);
          Values out = {};
          if (accumulate_dresidual) out = *to;
#pragma unroll
          for (int j = 0; j < kWidth; ++j)
            store(&out.value[j], accumulate_dresidual ? load(&out.value[j]) + g[j] : g[j]);
          store_pack(to, out, around_cache);
        }
        if (dx != nullptr) {
          auto* to = reinterpret_cast<Values*>(dx + at + u * step);
          Values out = {};
          if (accumulate_dx) out = *to;
#pragma unroll
          for (int j = 0; j < kWidth; ++j) {
            float v = g[j] * of[0][j];
            if (x != nullptr) v += (load(&in[u].value[j]) - centre[0][j]) * of[1][j] + of[2][j];
            if (accumulate_dx) v += load(&out.value[j]);
            store(&out.value[j], v);
          }
          store_pack(to, out, around_cache);
        }
      }
    }
  }
}

// Generic path for any types and number of channels. A thread has eight adjacent elements, which share a mask
// byte. Calls each(element, its number in the group, sample, channel).
template <class Each>
__device__ __forceinline__ void over_eight(Index group, Index count, Index per_sample, Index channels,
                                           Each&& each) {
  const Index first = group * 8;
  Index sample = first / per_sample, left = (sample + 1) * per_sample - first, channel = first % channels;
  for (int j = 0; j < 8 && first + j < count; ++j) {
    each(first + j, j, sample, channel);
    if (++channel == channels) channel = 0;
    if (--left == 0) {
      ++sample;
      left = per_sample;
    }
  }
}

template <class T>
__global__ void forward_any_kernel(Slot x, Slot residual, Slot y, std::uint8_t* mask, const T* coefficients,
                                   Index count, Index per_sample, Index channels, bool relu) {
  await_earlier_work();
  const Index groups = (count + 7) / 8, stride = Index{gridDim.x} * blockDim.x;
  for (Index group = Index{blockIdx.x} * blockDim.x + threadIdx.x; group < groups; group += stride) {
    unsigned bits = 0;
    over_eight(group, count, per_sample, channels, [&](Index i, int j, Index sample, Index channel) {
      const T* of = coefficients + sample * 3 * channels + channel;
      T v = (load_any<T>(x.data, x.dtype, i) - of[0]) * of[channels] + of[2 * channels];
      if (residual.data != nullptr) v += load_any<T>(residual.data, residual.dtype, i);
      bits |= static_cast<unsigned>(v > T(0)) << j;
      if (relu) v = formulas::Relu::eval(formulas::Constants<T>{}, v);
      store_any(y.data, y.dtype, i, v);
    });
    if (mask != nullptr) mask[group] = static_cast<std::uint8_t>(bits);
  }
}

template <class T>
__global__ void backward_any_kernel(Slot x, Slot dy, Slot dx, Slot dresidual, const std::uint8_t* mask,
                                    const T* centres, const T* coefficients, Index count, Index per_sample,
                                    Index channels, bool accumulate_dx, bool accumulate_dresidual) {
  await_earlier_work();
  const Index groups = (count + 7) / 8, stride = Index{gridDim.x} * blockDim.x;
  for (Index group = Index{blockIdx.x} * blockDim.x + threadIdx.x; group < groups; group += stride) {
    const unsigned bits = mask != nullptr ? mask[group] : ~0u;
    over_eight(group, count, per_sample, channels, [&](Index i, int j, Index sample, Index channel) {
      const T* of = coefficients + sample * 3 * channels + channel;
      const T g = bits >> j & 1u ? load_any<T>(dy.data, dy.dtype, i) : T(0);
      T v = g * of[0];
      if (x.data != nullptr) {
        const T d = load_any<T>(x.data, x.dtype, i) - centres[sample * channels + channel];
        v += d * of[channels] + of[2 * channels];
      }
      if (dresidual.data != nullptr) {
        const T before = accumulate_dresidual ? load_any<T>(dresidual.data, dresidual.dtype, i) : T(0);
        store_any(dresidual.data, dresidual.dtype, i, accumulate_dresidual ? before + g : g);
      }
      if (dx.data != nullptr) {
        if (accumulate_dx) v += load_any<T>(dx.data, dx.dtype, i);
        store_any(dx.data, dx.dtype, i, v);
      }
    });
  }
}

// ---- Plans

ColumnPlan plan_columns(Index samples, Index rows, Index channels, bool packed, int batch) {
  ColumnPlan p{.samples = samples, .rows = rows, .channels = channels, .width = packed ? kWidth : 1};
  const Index threads = ceil_div(channels, p.width), most = 32;
  p.column_blocks = static_cast<int>(ceil_div(threads, most));
  p.columns = static_cast<int>(ceil_div(threads, p.column_blocks));
  p.lanes = kThreads / p.columns;
  p.chunk = Index{p.lanes} * batch;
  p.chunks = ceil_div(rows, p.chunk);
  return p;
}

// One wave of blocks, with `resident` blocks per multiprocessor, or two waves of large blocks; chunks per
// block differ by at most one.
ColumnPlan gathering_plan(ColumnPlan p, int resident) {
  const Index wave = std::max<Index>(1, Index{kProcessors} * resident / (p.column_blocks * p.samples));
  const Index most = p.chunks >= 16 * wave ? 2 * wave : wave;
  p.slices = ceil_div(p.chunks, ceil_div(p.chunks, most));
  return p;
}

ColumnPlan writing_plan(ColumnPlan p) {
  const Index blocks = p.chunks * p.column_blocks * p.samples;
  p.per_slice =
      std::clamp<Index>(blocks / (kProcessors * 8), 1, std::max<Index>(4, blocks / (kProcessors * 32)));
  p.slices = ceil_div(p.chunks, p.per_slice);
  return p;
}

dim3 grid_of(const ColumnPlan& p) {
  constexpr Index kMostDeep = 65535;
  return {static_cast<unsigned>(p.column_blocks), static_cast<unsigned>(p.slices),
          static_cast<unsigned>(std::min(p.samples, kMostDeep))};
}

}  // namespace

ColumnTypes column_types(std::initializer_list<const Tensor*> tensors, Index channels) {
  const DType first = (*tensors.begin())->dtype();
  ColumnTypes types{.packed = channels % kWidth == 0};
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (t->dtype() == DType::f64) types.compute = DType::f64;
    types.packed = types.packed && t->dtype() == first && first != DType::f64 &&
                   is_aligned(t->raw(), kWidth * size_of(first));
  }
  return types;
}

ColumnPlan statistics_plan(Index samples, Index rows, Index channels, ColumnTypes types, DType x) {
  const int blocks = types.packed && !is_16bit(x) ? kStatisticsBlocks<float> : kStatisticsBlocks<Half>;
  return gathering_plan(plan_columns(samples, rows, channels, types.packed, kStatisticsRows), blocks);
}

ColumnPlan gradient_plan(Index samples, Index rows, Index channels, ColumnTypes types, DType x) {
  const int batch = types.packed && is_16bit(x) ? kGradientRows<Half> : kGradientRows<float>;
  return gathering_plan(plan_columns(samples, rows, channels, types.packed, batch), kGradientBlocks);
}

void gather_statistics(const Tensor& x, const ColumnPlan& plan, ColumnTypes types, void* partial,
                       cudaStream_t stream) {
  const auto run = [&]<class A>(TypeTag<A>) {
    launch_early("norm: statistics", statistics_kernel<A>, grid_of(plan), kThreads, stream, slot_of(x), plan,
                 static_cast<typename A::T*>(partial));
  };
  if (types.packed) return visit_below_f64(x.dtype(), [&]<class S>(TypeTag<S>) { run(TypeTag<Eight<S>>{}); });
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) { run(TypeTag<One<T>>{}); });
}

void gather_gradients(const ColumnBackward& args, const ColumnPlan& plan, ColumnTypes types, void* partial,
                      cudaStream_t stream) {
  const auto run = [&]<class A>(TypeTag<A>) {
    using T = typename A::T;
    launch_early("norm: gradient sums", gradients_kernel<A>, grid_of(plan), kThreads, stream, slot_of(args.x),
                 slot_of(args.dy), args.mask, static_cast<const T*>(args.centre), plan,
                 static_cast<T*>(partial));
  };
  if (types.packed)
    return visit_below_f64(args.x.dtype(), [&]<class S>(TypeTag<S>) { run(TypeTag<Eight<S>>{}); });
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) { run(TypeTag<One<T>>{}); });
}

void write_forward(const ColumnForward& args, Index samples, Index rows, ColumnTypes types,
                   cudaStream_t stream) {
  const Index count = args.x.numel(), per_sample = count / samples, channels = per_sample / rows;
  if (types.packed) {
    return visit_below_f64(args.x.dtype(), [&]<class S>(TypeTag<S>) {
      const ColumnPlan plan = writing_plan(plan_columns(samples, rows, channels, true, kForwardRows<S>));
      const auto kernel = args.residual.defined() ? forward_kernel<S, true> : forward_kernel<S, false>;
      launch_early("norm: forward", kernel, grid_of(plan), kThreads, stream, args.x.data<S>(),
                   data_or_null<S>(args.residual), args.y.data<S>(), args.mask,
                   static_cast<const float*>(args.coefficients), plan, args.relu,
                   args.y.bytes() > kLargeBytes);
    });
  }
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("norm: forward", forward_any_kernel<T>, blocks_for(count, Index{kThreads} * 8), kThreads,
                 stream, slot_of(args.x), slot_of(args.residual), slot_of(args.y), args.mask,
                 static_cast<const T*>(args.coefficients), count, per_sample, channels, args.relu);
  });
}

void write_backward(const ColumnBackward& args, Index samples, Index rows, ColumnTypes types,
                    cudaStream_t stream) {
  const Index count = args.x.numel(), per_sample = count / samples, channels = per_sample / rows;
  const Tensor x = args.frozen || !args.dx.defined() ? Tensor{} : args.x;
  if (types.packed) {
    return visit_below_f64(args.x.dtype(), [&]<class S>(TypeTag<S>) {
      const ColumnPlan plan = writing_plan(plan_columns(samples, rows, channels, true, kBackwardRows<S>));
      launch_early("norm: backward", backward_kernel<S>, grid_of(plan), kThreads, stream, data_or_null<S>(x),
                   args.dy.data<S>(), data_or_null<S>(args.dx), data_or_null<S>(args.dresidual), args.mask,
                   static_cast<const float*>(args.centre), static_cast<const float*>(args.coefficients), plan,
                   args.accumulate_dx, args.accumulate_dresidual, args.x.bytes() > kLargeBytes);
    });
  }
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("norm: backward", backward_any_kernel<T>, blocks_for(count, Index{kThreads} * 8), kThreads,
                 stream, slot_of(x), slot_of(args.dy), slot_of(args.dx), slot_of(args.dresidual), args.mask,
                 static_cast<const T*>(args.centre), static_cast<const T*>(args.coefficients), count,
                 per_sample, channels, args.accumulate_dx, args.accumulate_dresidual);
  });
}

}  // namespace tandem::cuda
