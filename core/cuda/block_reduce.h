// Reductions within a warp and a block, in an order that depends only on the block size: reproducible bits.
#pragma once

#include <cuda_runtime.h>

namespace tandem::cuda {

inline constexpr int kWarp = 32;

// `combine(a, b)` over the lanes of a warp; every lane gets the result.
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, Combine combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

// Reduction over all threads of a block, a multiple of 32 up to 1024; every thread gets the result. `shared`
// holds 32 values and may be reused after the call. T: float, double, int, unsigned or long long.
template <class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, T neutral, T* shared, Combine combine) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  value = warp_reduce(value, combine);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = lane < warps ? shared[lane] : neutral;
  value = warp_reduce(value, combine);
  __syncthreads();
  return value;
}

// Calls step(distance) for each step of a tree over `lanes` lanes, with barriers in between.
template <class Step>
__device__ __forceinline__ void lane_tree(int lanes, Step&& step) {
  int distance = 1;
  while (distance < lanes) distance *= 2;
  __syncthreads();
  for (distance /= 2; distance > 0; distance /= 2) {
    step(distance);
    __syncthreads();
  }
}

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

}  // namespace tandem::cuda
