// Reduction passes over columns for batch norm and group norm (norm_columns.h); norm_columns_write.cu has the
// passes that follow.
//
// Forward: a pass over x computes statistics, and a small kernel combines the slices and computes
// coefficients. Backward: the same with Σ g and Σ g·(x-mean). Statistics are f32 within a slice: Welford's
// method in batches of four rows, relative to an element of x, combined by the formula of Chan, Golub and
// LeVeque in a fixed tree. Slices are combined in f64. There is no cancellation for any mean.
//
// Sizes, for ResNet-50 on 132 multiprocessors (SMs). A thread has eight channels: one or two accesses of 16
// bytes and one mask byte. A block has 256 threads. A pass needs some 24 KB in flight per SM (4.8 TB/s times
// 0.65 µs); statistics have 64 KB (4 blocks, 4 rows per thread, 64 registers), gradients 96 KB (3 blocks, 4
// rows of x and dy in 16 bits). A pass runs one wave of blocks, or two if a thread still has 32 rows or more:
// at most 1056 blocks write 12 bytes for each of at most 256 channels, 3 MB beside 411 MB of x in the first
// stage, 1.2 MB beside 51 MB in the last, mostly in L2.
#include <cuda_runtime.h>

#include <algorithm>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/norm_columns.h"
#include "core/cuda/numeric.h"

namespace tandem::cuda {

namespace {

constexpr int kWidth = kColumnWidth;
constexpr int kStatisticsRows = 4;  // rows per batch

// Rows per batch: two 16-byte accesses of x and as many of dy are in flight.
template <class S>
inline constexpr int kGradientRows = is_half_v<S> ? 4 : 2;
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

// Merges `count` values with the given mean and sum of squared deviations into statistics of `before` values;
// share is count / (before + count).
template <class T>
__device__ __forceinline__ void merge(T& mean, T& squares, T before, T share, T other_mean, T other_squares) {
  const T delta = other_mean - mean;
  mean += delta * share;
  squares += other_squares + delta * delta * (before * share);
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

// One wave of blocks, with `resident` blocks per multiprocessor, or two waves of large blocks; chunks per
// block differ by at most one.
ColumnPlan gathering_plan(ColumnPlan p, int resident) {
  const Index wave = std::max<Index>(1, Index{kProcessors} * resident / (p.column_blocks * p.samples));
  const Index most = p.chunks >= 16 * wave ? 2 * wave : wave;
  p.slices = ceil_div(p.chunks, ceil_div(p.chunks, most));
  return p;
}

}  // namespace

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

dim3 grid_of(const ColumnPlan& p) {
  constexpr Index kMostDeep = 65535;
  return {static_cast<unsigned>(p.column_blocks), static_cast<unsigned>(p.slices),
          static_cast<unsigned>(std::min(p.samples, kMostDeep))};
}

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

}  // namespace tandem::cuda
