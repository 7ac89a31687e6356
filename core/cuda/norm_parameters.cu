// Gradients of the norms' parameters: the sums of blocks, added in a fixed order.
#include <cuda_runtime.h>

#include "core/cuda/launch.h"
#include "core/cuda/norm_parameters.h"

namespace tandem::cuda {

namespace {

constexpr int kSumColumns = 8, kSumLanes = 64;

// dgamma and dbeta from partial [parts, 2, width], summed in f64.
template <class T>
__global__ void __launch_bounds__(kSumColumns* kSumLanes)
    finish_parameters_kernel(const T* partial, Index parts, Index width, Slot dgamma, Slot dbeta) {
  await_earlier_work();
  __shared__ double held[kSumColumns * kSumLanes];
  const int thread = static_cast<int>(threadIdx.x), lane = thread / kSumColumns;
  const Index column = Index{blockIdx.x} * kSumColumns + thread % kSumColumns;
  double total = 0.0;
  if (column < 2 * width) {
#pragma unroll 4
    for (Index part = lane; part < parts; part += kSumLanes)
      total += static_cast<double>(partial[part * 2 * width + column]);
  }
  held[thread] = total;
  __syncthreads();
  for (int distance = kSumLanes / 2; distance > 0; distance /= 2) {
    if (lane < distance) held[thread] += held[thread + distance * kSumColumns];
    __syncthreads();
  }
  if (lane != 0 || column >= 2 * width) return;
  column < width ? set_element(dgamma, column, held[thread])
                 : set_element(dbeta, column - width, held[thread]);
}

}  // namespace

template <class T>
void finish_parameters(const T* partial, Index parts, Index width, const Tensor& dgamma, const Tensor& dbeta,
                       cudaStream_t stream) {
  launch_early("norm: parameter gradients", finish_parameters_kernel<T>, ceil_div(2 * width, kSumColumns),
               kSumColumns * kSumLanes, stream, partial, parts, width, slot_of(dgamma), slot_of(dbeta));
}
template void finish_parameters(const float*, Index, Index, const Tensor&, const Tensor&, cudaStream_t);
template void finish_parameters(const double*, Index, Index, const Tensor&, const Tensor&, cudaStream_t);

}  // namespace tandem::cuda
