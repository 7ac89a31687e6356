// Memory-bound kernels after the update (commit, averages), and in-place changes of a buffer.
#include <cuda_runtime.h>

#include <string_view>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/update_ranges.h"
#include "core/error.h"
#include "core/kernels/step.h"

namespace tandem::cuda {

namespace {

// ---- After the step

__global__ void commit_or_restore_kernel(float* source, float* target, Index count, const StepState* state) {
  await_earlier_work();
  const bool skip = state->skip != 0;
  const Index stride = Index{gridDim.x} * kThreads;
  for (Index i = Index{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const bool stays = skip || !std::isfinite(source[i]);
    (stays ? source : target)[i] = (stays ? target : source)[i];
  }
}

__global__ void average_kernel(const float* x, float* y, Index packs, Index count, AverageRule rule,
                               const StepState* state) {
  await_earlier_work();
  if (state->skip != 0) return;
  const float rest = static_cast<float>(1.0 - kernels::average_decay(rule, *state));
  const Index stride = Index{gridDim.x} * kThreads, first = Index{blockIdx.x} * kThreads + threadIdx.x;
  for (Index p = first; p < packs; p += stride) {
    const Pack<float> value = fetch<4>(x + 4 * p);
    Pack<float> average = fetch<4>(static_cast<const float*>(y) + 4 * p);
#pragma unroll
    for (int l = 0; l < 4; ++l) average.value[l] += rest * (value.value[l] - average.value[l]);
    put<4>(y + 4 * p, average);
  }
  for (Index i = 4 * packs + first; i < count; i += stride) y[i] += rest * (x[i] - y[i]);
}

// ---- In place

struct RoundTo {
  DType dtype;
  __device__ __forceinline__ float operator()(float value) const { return rounded(value, dtype); }
};

template <class T>
struct ScaleAndLimit {
  T factor, limit;
  __device__ __forceinline__ T operator()(T x) const {
    const T value = x * factor;
    const T low = value < -limit ? -limit : value;
    return low > limit ? limit : low;
  }
};

template <class T, class Change>
__global__ void in_place_kernel(T* x, Index packs, Index count, Change change) {
  await_earlier_work();
  constexpr int kWidth = Pack<T>::kSize;
  const Index stride = Index{gridDim.x} * kThreads, first = Index{blockIdx.x} * kThreads + threadIdx.x;
  for (Index p = first; p < packs; p += stride) {
    Pack<T> values = fetch<kWidth>(static_cast<const T*>(x) + p * kWidth);
#pragma unroll
    for (T& value : values.value) value = change(value);
    put<kWidth>(x + p * kWidth, values);
  }
  for (Index i = packs * kWidth + first; i < count; i += stride) x[i] = change(x[i]);
}

template <class T, class Change>
void change_in_place(std::string_view name, const Tensor& x, Change change, cudaStream_t stream) {
  const Index count = x.numel();
  if (count == 0) return;
  const Index packs = is_aligned(x.raw()) ? count / Pack<T>::kSize : 0;
  launch_early(name, in_place_kernel<T, Change>, blocks_for(count, Index{kThreads} * Pack<T>::kSize),
               kThreads, stream, x.data<T>(), packs, count, change);
}

}  // namespace

void CudaUpdate::commit_or_restore(const Tensor& source, const Tensor& target, const Tensor& state) {
  ensure(source.dtype() == DType::f32 && target.dtype() == DType::f32 && source.numel() == target.numel(),
         "commit_or_restore", "source {} and target {} are not f32 buffers of one size", to_string(source),
         to_string(target));
  const Index count = source.numel();
  if (count == 0) return;
  launch_early("commit_or_restore", commit_or_restore_kernel, blocks_for(count), kThreads, backend.stream(),
               source.data<float>(), target.data<float>(), count, state_of(state));
}

void CudaUpdate::update_average(const Tensor& value, const Tensor& average, const AverageRule& rule,
                                const Tensor& state) {
  ensure(value.numel() == average.numel(), "update_average", "value {} and average {} differ in size",
         to_string(value), to_string(average));
  const Index count = value.numel();
  if (count == 0) return;
  const Index packs = is_aligned(value.raw()) && is_aligned(average.raw()) ? count / 4 : 0;
  launch_early("update_average", average_kernel, blocks_for(packs != 0 ? packs : count), kThreads,
               backend.stream(), value.data<float>(), average.data<float>(), packs, count, rule,
               state_of(state));
}

void CudaUpdate::round_to(const Tensor& x, DType dtype) {
  ensure(x.dtype() == DType::f32 && is_16bit(dtype), "round_to", "{} to {}", to_string(x), name_of(dtype));
  change_in_place<float>("round_to", x, RoundTo{dtype}, backend.stream());
}

void CudaUpdate::scale_and_limit(const Tensor& x, double factor, double limit) {
  visit_compute(x.dtype(), [&]<class T>(TypeTag<T>) {
    const ScaleAndLimit<T> change{static_cast<T>(factor), static_cast<T>(limit)};
    change_in_place<T>("scale_and_limit", x, change, backend.stream());
  });
}

}  // namespace tandem::cuda
