// Common parts of row kernels (reduce, softmax, cross entropy): reading elements of a fixed or any type,
// iterating over a run of memory in 16-byte steps, and combining the values of a group.
//
// A group is a power of two of adjacent lanes of one warp, or a whole block. Behaviour depends only on shapes
// and on 16-byte alignment of addresses, so results are reproducible bit for bit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "core/cuda/block_reduce.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/kernels/math.h"

namespace tandem::cuda {

// Type of accumulated results before rounding.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, Index, double>;

// ---- Sources and targets

// Elements stored as S, read in the compute type.
template <class S>
struct Typed {
  using Stored = S;
  using Element = ComputeType<S>;
  using Packed = Pack<S>;
  static constexpr int kWidth = Packed::kSize;

  S* data;

  __device__ __forceinline__ Element at(Index i) const { return load(data + i); }
  __device__ __forceinline__ void put(Index i, Element value) const { store(data + i, value); }
  // kWidth elements from i on, aligned to 16 bytes.
  __device__ __forceinline__ Packed fetch(Index i) const {
    return *reinterpret_cast<const Packed*>(data + i);
  }
  __device__ __forceinline__ void put(Index i, const Packed& values) const {
    *reinterpret_cast<Packed*>(data + i) = values;
  }
  // Number of elements from i to the next 16-byte boundary.
  __device__ __forceinline__ int to_boundary(Index i) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data + i);
    return static_cast<int>((0 - address) % 16 / sizeof(S));
  }
};

// Elements of a type known at run time, converted to and from C one at a time.
template <class C>
struct Any {
  using Stored = C;
  using Element = C;
  using Packed = Pack<C, 1>;
  static constexpr int kWidth = 1;

  void* data;
  DType dtype;

  __device__ __forceinline__ C at(Index i) const { return load_any<C>(data, dtype, i); }
  __device__ __forceinline__ void put(Index i, C value) const { store_any(data, dtype, i, value); }
  __device__ __forceinline__ Packed fetch(Index i) const { return {{at(i)}}; }
  __device__ __forceinline__ void put(Index i, const Packed& values) const { put(i, values.value[0]); }
  __device__ __forceinline__ int to_boundary(Index) const { return 0; }
};

template <class C>
Any<C> any_of(const Tensor& x) {
  return {x.raw(), x.dtype()};
}

// Packs that a thread loads before it uses the first. Any loads one, because every load switches over types.
template <class Source>
inline constexpr int kBatchOf = 4;
template <class C>
inline constexpr int kBatchOf<Any<C>> = 1;

// Whether packs are aligned in all runs of `inner` elements of size `element` from `data` on.
inline bool packs_fit(const void* data, Index inner, std::size_t element) {
  return is_aligned(data) && inner % static_cast<Index>(16 / element) == 0;
}

// The smallest power of two that is at least n, within [1, most]; `most` is a power of two.
constexpr int power_of_two_for(Index n, int most) {
  int result = 1;
  while (result < most && result < n) result *= 2;
  return result;
}

// n is a power of two.
__device__ __forceinline__ int log2_of(int n) { return 31 - __clz(n); }

// ---- Choosing

// Eight blocks per multiprocessor of a large GPU. Reductions with fewer than a quarter are split into parts.
inline constexpr Index kFullGrid = kProcessors * 8;
inline constexpr Index kMostBlocks = 1 << 20;

// ---- Iterating over a run

inline constexpr int kNeverFlush = 1 << 30;

// Divides elements [begin, end) after `base` among the lanes of a group (a power of two): single elements up
// to a 16-byte boundary, then packs, then single elements. Calls one(i) or pack(i, values) with the position
// of the (first) element, in ascending order per lane, and flush() every kFlush packs and at the end.
template <int kFlush, class Source, class One, class Packs, class Flush>
__device__ __forceinline__ void walk_run(const Source& x, Index base, Index begin, Index end, int lane,
                                         int group, const One& one, const Packs& pack, const Flush& flush) {
  constexpr int kWidth = Source::kWidth, kBatch = kBatchOf<Source>;
  Index head = 0;
  if constexpr (kWidth > 1) {
    head = x.to_boundary(base + begin);
    if (head > end - begin) head = end - begin;
#pragma unroll 1
    for (Index i = begin + lane; i < begin + head; i += group) one(i);
  }
  const Index first = begin + head, packs = (end - first) / kWidth, step = Index{group} * kWidth;
  Index left = packs > lane ? (packs - lane + group - 1) >> log2_of(group) : 0;
  Index i = first + Index{lane} * kWidth;
  do {
    const int now = static_cast<int>(left < kFlush ? left : kFlush);
    left -= now;
    int done = 0;
    for (; done + kBatch <= now; done += kBatch) {
      typename Source::Packed values[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) values[b] = x.fetch(base + i + b * step);
#pragma unroll
      for (int b = 0; b < kBatch; ++b) pack(i + b * step, values[b]);
      i += kBatch * step;
    }
#pragma unroll 1
    for (; done < now; ++done) {
      pack(i, x.fetch(base + i));
      i += step;
    }
    if constexpr (kWidth > 1) {
      if (left == 0) {
#pragma unroll 1
        for (Index k = first + packs * kWidth + lane; k < end; k += group) one(k);
      }
    }
    flush();
  } while (left > 0);
}

// ---- Combining within a group

// The value of another lane, of any trivially copyable type of whole words.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int distance) {
  static_assert(sizeof(T) % 4 == 0);
  unsigned words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (unsigned& word : words) word = __shfl_xor_sync(0xffffffffu, word, distance);
  memcpy(&value, words, sizeof(T));
  return value;
}

// `combine(a, b)` over the lanes of a group; lane 0 of the group gets the result. All threads of the block
// must call it; `shared` holds one value per warp and may be reused after the call.
template <class State, class Combine>
__device__ __forceinline__ State group_reduce(State state, int group, State* shared, const Combine& combine) {
#pragma unroll 1
  for (int distance = (group < kWarp ? group : kWarp) / 2; distance > 0; distance /= 2)
    state = combine(state, shuffle_xor(state, distance));
  if (group <= kWarp) return state;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  if (lane == 0) shared[warp] = state;
  __syncthreads();
  if (warp == 0) {
    state = shared[lane < warps ? lane : 0];
    // Lanes from `warps` on repeat the first ones. They would reach lane 0 only if the number of warps is not
    // a power of two, so they are masked.
#pragma unroll 1
    for (int distance = power_of_two_for(warps, kWarp) / 2; distance > 0; distance /= 2) {
      const State other = shuffle_xor(state, distance);
      if ((lane ^ distance) < warps) state = combine(state, other);
    }
  }
  __syncthreads();
  return state;
}

// The same, with the result in every thread of the group.
template <class State, class Combine>
__device__ __forceinline__ State group_reduce_all(State state, int group, State* shared,
                                                  const Combine& combine) {
  state = group_reduce(state, group, shared, combine);
  if (group <= kWarp) {
    constexpr int kWords = sizeof(State) / 4;
    unsigned words[kWords];
    memcpy(words, &state, sizeof(State));
#pragma unroll
    for (unsigned& word : words) word = __shfl_sync(0xffffffffu, word, threadIdx.x % kWarp / group * group);
    memcpy(&state, words, sizeof(State));
    return state;
  }
  if (threadIdx.x == 0) shared[0] = state;
  __syncthreads();
  state = shared[0];
  __syncthreads();
  return state;
}

// Reduction over the rows of a block with `columns` adjacent threads per row, both powers of two; the thread
// in row 0 gets the result of its column. `shared` holds kValues values per thread.
template <int kValues, class State, class Combine>
__device__ __forceinline__ void column_reduce(State* states, int columns, State* shared,
                                              const Combine& combine) {
  const int rows = blockDim.x / columns, row = threadIdx.x / columns;
  if (rows == 1) return;
#pragma unroll
  for (int v = 0; v < kValues; ++v) shared[v * blockDim.x + threadIdx.x] = states[v];
#pragma unroll 1
  for (int distance = rows / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (row < distance) {
#pragma unroll
      for (int v = 0; v < kValues; ++v) {
        State* own = shared + v * blockDim.x + threadIdx.x;
        *own = combine(own[0], own[distance * columns]);
      }
    }
  }
  // Row 0 reads only values that it has written itself.
#pragma unroll
  for (int v = 0; v < kValues; ++v) states[v] = shared[v * blockDim.x + threadIdx.x];
}

// ---- Exponentials

// e^x for results stored as S. A relative error of |x|·2^-23 does not affect 16-bit results, for which the
// exact function would be the bottleneck.
template <class S>
__device__ __forceinline__ ComputeType<S> exp_for(ComputeType<S> x) {
  if constexpr (is_half_v<S>) {
    // Like __expf, but subnormal results are 0, which halves the number of instructions.
#if defined(__CUDA_ARCH__)
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
    return result;
#else
    return ::exp2f(x * 1.44269504f);
#endif
  } else {
    return math::exp(x);
  }
}

// Maximum that ignores a NaN beside a number.
__device__ __forceinline__ float larger(float a, float b) { return ::fmaxf(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return ::fmax(a, b); }
struct Larger {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return larger(a, b);
  }
};

// Σ e^x = sum · e^top, where top is the largest element that is not NaN; a NaN makes the sum NaN. If top is
// infinite, only top + log(sum) is defined.
template <class T>
struct ExpSum {
  T top, sum;

  static __device__ __forceinline__ ExpSum none() { return {-std::numeric_limits<T>::infinity(), T(0)}; }

  __device__ __forceinline__ void add(T x) {
    const T distance = x == top ? T(0) : x - top;
    const bool higher = distance > T(0);
    const T e = math::exp(higher ? -distance : distance);
    sum = higher ? sum * e + T(1) : sum + e;
    top = higher ? x : top;
  }

  // Adds several values stored as S with one exponential each and one more in all. The error of exp_for in a
  // term shrinks with the term.
  template <class S, int kCount>
  __device__ __forceinline__ void add_all(const T (&x)[kCount]) {
    T high = top;
#pragma unroll
    for (int i = 0; i < kCount; ++i) high = larger(x[i], high);
    const T base = high - high == T(0) ? high : T(0);  // the difference of infinities is NaN
    T more = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) more += exp_for<S>(x[i] - base);
    sum = sum * (high == top ? T(1) : math::exp(top - high)) + more;
    top = high;
  }

  friend __device__ __forceinline__ ExpSum combined(ExpSum a, ExpSum b) {
    const T distance = b.top == a.top ? T(0) : b.top - a.top;
    const bool higher = distance > T(0);
    const T e = math::exp(higher ? -distance : distance);
    return {higher ? b.top : a.top, higher ? a.sum * e + b.sum : a.sum + b.sum * e};
  }
};

struct JoinSums {
  template <class T>
  __device__ __forceinline__ ExpSum<T> operator()(ExpSum<T> a, ExpSum<T> b) const {
    return combined(a, b);
  }
};

}  // namespace tandem::cuda
