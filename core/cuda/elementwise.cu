// Elementwise kernels: fill, copies, casts and `pointwise`.
//
// Formulas over operands of one type and y's shape are processed 16 bytes per thread; broadcast.cu has the
// kernels for broadcast operands and mixed types.
#include <cuda_runtime.h>

#include <algorithm>

#include "core/cuda/capture.h"
#include "core/cuda/elementwise.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/pointwise.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

// ---- One type, one shape

template <class T>
struct Operands {
  const T* at[kMaxOperands];
};

// `accumulate` is uniform and costs nothing here; as a template parameter it would double the kernels.
template <class F, class T>
__global__ void uniform_kernel(formulas::Constants<ComputeType<T>> c, Operands<T> x, T* y, Index count,
                               bool accumulate) {
  await_earlier_work();
  using C = ComputeType<T>;
  using Values = Pack<T>;
  const Index stride = Index{gridDim.x} * blockDim.x, first = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  const Index packs = count / Values::kSize;
  for (Index p = first; p < packs; p += stride) {
    Values in[F::arity];
#pragma unroll
    for (int k = 0; k < F::arity; ++k) in[k] = reinterpret_cast<const Values*>(x.at[k])[p];
    evaluate_pack<F>(c, in, reinterpret_cast<Values*>(y) + p, accumulate);
  }
#pragma unroll 1
  for (Index i = packs * Values::kSize + first; i < count; i += stride) {
    C operands[F::arity];
#pragma unroll
    for (int k = 0; k < F::arity; ++k) operands[k] = load(x.at[k] + i);
    C result = evaluate<F>(c, operands);
    if (accumulate) result += load(y + i);
    store(y + i, result);
  }
}

// ---- Kernel tables by formula

// Signature common to the kernels of all formulas.
template <class T>
using UniformKernel = void (*)(formulas::Constants<ComputeType<T>>, Operands<T>, T*, Index, bool);

template <class T, class... F>
UniformKernel<T> uniform_kernel_of(FormulaId id, formulas::FormulaList<F...>) {
  static constexpr UniformKernel<T> table[] = {&uniform_kernel<F, T>...};
  return table[static_cast<std::size_t>(id)];
}

template <class T>
void run_uniform(const PointwiseCall& call) {
  Operands<T> operands{};
  for (std::size_t k = 0; k < call.inputs.size(); ++k) operands.at[k] = call.inputs[k].data<T>();
  const Index count = call.y.numel();
  const unsigned blocks = blocks_for(count, Index{kThreads} * Pack<T>::kSize);
  launch_early("pointwise", uniform_kernel_of<T>(call.formula, formulas::Formulas{}), blocks, kThreads,
               call.stream, constants_of<ComputeType<T>>(call.scalars), operands, call.y.data<T>(), count,
               call.accumulate);
}

void run(const PointwiseCall& call) {
  const Tensor& y = call.y;
  bool uniform = is_floating(y.dtype()) && is_aligned(y.raw());
  for (const Tensor& x : call.inputs)
    uniform = uniform && x.dtype() == y.dtype() && x.shape() == y.shape() && is_aligned(x.raw());
  if (!uniform) return run_broadcast(call);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) { run_uniform<T>(call); });
}

// ---- Casts

// Elements per pack of a cast: at least 16 bytes on one side, at most eight elements.
template <class From, class To>
inline constexpr int kCastWidth = std::min<int>(8, 16 / std::min(sizeof(From), sizeof(To)));

template <class From, class To>
__device__ __forceinline__ void cast_element(From x, To& y, bool accumulate) {
  if (accumulate) {
    using C = std::conditional_t<std::is_same_v<From, double> || std::is_same_v<To, double>, double, float>;
    store(&y, convert<C>(x) + convert<C>(y));
  } else {
    y = convert<To>(x);
  }
}

// Processes `packs` whole packs, then single elements.
template <class From, class To>
__global__ void cast_kernel(const From* x, To* y, Index packs, Index count, bool accumulate) {
  await_earlier_work();
  constexpr int kWidth = kCastWidth<From, To>;
  using Sources = Pack<From, kWidth>;
  using Targets = Pack<To, kWidth>;
  const Index stride = Index{gridDim.x} * blockDim.x, first = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  for (Index p = first; p < packs; p += stride) {
    const Sources in = reinterpret_cast<const Sources*>(x)[p];
    Targets out;
    if (accumulate) out = reinterpret_cast<const Targets*>(y)[p];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) cast_element(in.value[k], out.value[k], accumulate);
    reinterpret_cast<Targets*>(y)[p] = out;
  }
#pragma unroll 1
  for (Index i = packs * kWidth + first; i < count; i += stride) cast_element(x[i], y[i], accumulate);
}

template <class T>
__global__ void fill_from_double(T* y, Index count, double value) {
  await_earlier_work();
  const T converted = convert<T>(value);
  const Index stride = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) y[i] = converted;
}

}  // namespace

void CudaBackend::fill(const Tensor& y, double value) {
  if (y.numel() == 0) return;
  if (value == 0.0 && !std::signbit(value))
    return check(cudaMemsetAsync(y.raw(), 0, y.bytes(), stream_), "cudaMemsetAsync");
  visit_dtype(y.dtype(), [&]<class T>(TypeTag<T>) {
    launch_early("fill", fill_from_double<T>, blocks_for(y.numel()), kThreads, stream_, y.data<T>(),
                 y.numel(), value);
  });
}

namespace {

bool is_pageable(const Tensor& tensor) {
  if (tensor.device().type != DeviceType::cpu) return false;
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, tensor.raw()), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeUnregistered;
}

}  // namespace

void CudaBackend::copy_bytes(const Tensor& x, const Tensor& y) {
  if (x.bytes() == 0) return;
  if (is_captured(stream_) && (is_pageable(x) || is_pageable(y)))
    throw VendorError(
        "copy", fmt::format("{} is pageable host memory, which a recording cannot copy: a CUDA graph would "
                            "copy its contents at every launch; {}",
                            to_string(x), kWithoutRecording));
  // The copy blocks, so wait first in a way that calls the watcher.
  if (look_ && is_pageable(y)) wait_for_stream();
  check(cudaMemcpyAsync(y.raw(), x.raw(), x.bytes(), cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
}

void CudaBackend::cast(const Tensor& x, const Tensor& y, bool accumulate) {
  if (y.numel() == 0) return;
  visit_dtype(x.dtype(), [&]<class From>(TypeTag<From>) {
    visit_dtype(y.dtype(), [&]<class To>(TypeTag<To>) {
      constexpr int kWidth = kCastWidth<From, To>;
      const Index count = y.numel();
      const bool wide =
          is_aligned(x.raw(), sizeof(Pack<From, kWidth>)) && is_aligned(y.raw(), sizeof(Pack<To, kWidth>));
      const Index packs = wide ? count / kWidth : 0;
      launch_early("cast", cast_kernel<From, To>, blocks_for(packs != 0 ? packs : count), kThreads, stream_,
                   x.data<From>(), y.data<To>(), packs, count, accumulate);
    });
  });
}

void CudaElementwise::pointwise(FormulaId formula, const Scalars& scalars, std::span<const Tensor> inputs,
                                const Tensor& y, bool accumulate) {
  if (y.numel() == 0) return;
  run({formula, scalars, inputs, y, accumulate, backend.stream()});
}

ElementwiseKernels& CudaBackend::elementwise() { return own<CudaElementwise>(kernels_.elementwise); }

}  // namespace tandem::cuda
