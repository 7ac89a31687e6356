// Kernels with the name of a streaming one and one fault each, which `machine_code --control` must find.
#include <cuda_runtime.h>

namespace tandem::cuda {

struct Spills {};
struct Narrow {};
struct Divides {};
struct Waits {};
struct Hasty {};
struct Early {};

template <class Fault, bool kPacked>
__global__ void __launch_bounds__(256) update_kernel(const int4* x, int4* y, int n, int at) {
  const int first = __is_same(Fault, Hasty) ? x[at].x : 0;
  if constexpr (!__is_same(Fault, Early)) cudaGridDependencySynchronize();
  if constexpr (__is_same(Fault, Hasty) || __is_same(Fault, Early)) {
    for (int i = threadIdx.x; i < n; i += 256) {
      const int4 value = x[i], other = x[i + n];
      y[i] = {value.x + first, value.y + other.y, value.z + other.z, other.w};
    }
  } else if constexpr (__is_same(Fault, Spills)) {
    int held[64];  // indexed at run time
    for (int i = 0; i < 64; ++i) held[i] = n * i;
    for (int i = threadIdx.x; i < n; i += 256) {
      int4 value = x[i];
      value.x += held[(value.y + at) & 63];
      held[value.z & 63] = value.w;
      y[i] = value;
    }
  } else if constexpr (__is_same(Fault, Narrow)) {
    for (int i = threadIdx.x; i < n; i += 256)
      reinterpret_cast<int*>(y)[i] = reinterpret_cast<const int*>(x)[i];
  } else if constexpr (__is_same(Fault, Divides)) {
    for (int i = threadIdx.x; i < n; i += 256) {
      int4 value = x[i], other = x[i + n];
      value.x /= other.y + at;
      y[i] = value;
    }
  } else {
    __shared__ int4 room[2900];  // four blocks of it on a processor, and a thread waits for each of its loads
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 256) {
      room[(i + at) % 2048] = x[i];
      __syncthreads();
      y[i] = room[(i * 3) % 2048];
    }
  }
}

template __global__ void update_kernel<Spills, true>(const int4*, int4*, int, int);
template __global__ void update_kernel<Narrow, true>(const int4*, int4*, int, int);
template __global__ void update_kernel<Divides, true>(const int4*, int4*, int, int);
template __global__ void update_kernel<Waits, true>(const int4*, int4*, int, int);
template __global__ void update_kernel<Hasty, true>(const int4*, int4*, int, int);
template __global__ void update_kernel<Early, true>(const int4*, int4*, int, int);

}  // namespace tandem::cuda
