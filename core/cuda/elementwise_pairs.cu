// Ops on pairs of columns of a row: rotary positions, and SwiGLU. A thread has eight pairs if the tensors
// have one type and aligned packs, otherwise one pair.
#include <cuda_runtime.h>

#include "core/cuda/elementwise.h"
#include "core/cuda/fault.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/kernels/math.h"

namespace tandem::cuda {

namespace {

constexpr int kPairs = 8;

// Whether all have type S and start at a pack of eight.
bool packs(std::initializer_list<const Tensor*> tensors, Index width) {
  const DType dtype = (*tensors.begin())->dtype();
  bool packed = dtype != DType::f64 && width % kPairs == 0;
  for (const Tensor* t : tensors)
    packed = packed && t->dtype() == dtype && is_aligned(t->raw(), kPairs * size_of(dtype));
  return packed;
}

// ---- SwiGLU

template <class T>
struct SwigluGradient {
  T gate, value;
};
template <class T>
__device__ __forceinline__ T swiglu_of(T gate, T value) {
  return gate * math::sigmoid(gate) * value;
}
template <class T>
__device__ __forceinline__ SwigluGradient<T> swiglu_gradient_of(T gate, T value, T dy) {
  const T s = math::sigmoid(gate);
  return {dy * value * s * (T(1) + gate * (T(1) - s)), dy * gate * s};
}

template <class S>
__global__ void __launch_bounds__(kThreads) swiglu_kernel(const S* x, S* y, Index count, Index width) {
  await_earlier_work();
  using Values = Pack<S, kPairs>;
  const Index step = Index{gridDim.x} * blockDim.x * kPairs;
  for (Index i = (Index{blockIdx.x} * blockDim.x + threadIdx.x) * kPairs; i < count; i += step) {
    const S* const from = x + i / width * 2 * width + i % width;
    const auto gate = *reinterpret_cast<const Values*>(from);
    const auto value = *reinterpret_cast<const Values*>(from + width);
    Values out;
#pragma unroll
    for (int k = 0; k < kPairs; ++k)
      store(&out.value[k], swiglu_of(load(&gate.value[k]), load(&value.value[k])));
    *reinterpret_cast<Values*>(y + i) = out;
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(const S* x, const S* dy, S* dx, Index count, Index width) {
  await_earlier_work();
  using Values = Pack<S, kPairs>;
  const Index step = Index{gridDim.x} * blockDim.x * kPairs;
  for (Index i = (Index{blockIdx.x} * blockDim.x + threadIdx.x) * kPairs; i < count; i += step) {
    const Index at = i / width * 2 * width + i % width;
    auto gate = *reinterpret_cast<const Values*>(x + at);
    auto value = *reinterpret_cast<const Values*>(x + at + width);
    const auto given = *reinterpret_cast<const Values*>(dy + i);
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const auto gradient =
          swiglu_gradient_of(load(&gate.value[k]), load(&value.value[k]), load(&given.value[k]));
      store(&gate.value[k], gradient.gate);
      store(&value.value[k], gradient.value);
    }
    *reinterpret_cast<Values*>(dx + at) = gate;
    *reinterpret_cast<Values*>(dx + at + width) = value;
  }
}

template <class T>
__global__ void swiglu_any_kernel(Slot x, Slot y, Index count, Index width) {
  await_earlier_work();
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += Index{gridDim.x} * blockDim.x) {
    const Index at = i / width * 2 * width + i % width;
    store_any(y.data, y.dtype, i,
              swiglu_of(load_any<T>(x.data, x.dtype, at), load_any<T>(x.data, x.dtype, at + width)));
  }
}

template <class T>
__global__ void swiglu_backward_any_kernel(Slot x, Slot dy, Slot dx, Index count, Index width) {
  await_earlier_work();
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += Index{gridDim.x} * blockDim.x) {
    const Index at = i / width * 2 * width + i % width;
    const auto gradient =
        swiglu_gradient_of(load_any<T>(x.data, x.dtype, at), load_any<T>(x.data, x.dtype, at + width),
                           load_any<T>(dy.data, dy.dtype, i));
    store_any(dx.data, dx.dtype, at, gradient.gate);
    store_any(dx.data, dx.dtype, at + width, gradient.value);
  }
}

// ---- Rotary positions

// Angles of the rows of x [N,T,heads·D].
struct Angles {
  const void* table;
  DType dtype;
  const std::int64_t* positions;  // null: first + t
  Index steps, first, bound, half, heads;
  bool interleaved, inverse;
  Fault* fault;
  OpName op;

  // Of the row; reports one outside the table, and uses position 0 in its place.
  __device__ __forceinline__ Index position(Index row) const {
    if (positions == nullptr) return first + row % steps;
    const std::int64_t given = positions[row];
    if (given >= 0 && given < bound) return given;
    raise(fault, op, given, bound, row);
    return 0;
  }
  template <class T>
  __device__ __forceinline__ void turn(Index position, Index pair, T& a, T& b) const {
    const T cosine = load_any<T>(table, dtype, position * 2 * half + pair);
    const T sine = load_any<T>(table, dtype, position * 2 * half + half + pair);
    const T s = inverse ? -sine : sine, from = a;
    a = from * cosine - b * s;
    b = b * cosine + from * s;
  }
};

// `count`: pairs of all rows. The pairs of a thread lie in one head.
template <class S>
__global__ void __launch_bounds__(kThreads) rotate_kernel(const S* x, S* y, Angles angles, Index count) {
  await_earlier_work();
  using Values = Pack<S, kPairs>;
  const Index half = angles.half, step = Index{gridDim.x} * blockDim.x * kPairs;
  for (Index i = (Index{blockIdx.x} * blockDim.x + threadIdx.x) * kPairs; i < count; i += step) {
    const Index head = i / half, pair = i % half, position = angles.position(head / angles.heads);
    const Index first = head * 2 * half + (angles.interleaved ? 2 * pair : pair);
    const Index second = first + (angles.interleaved ? kPairs : half);
    auto left = *reinterpret_cast<const Values*>(x + first);
    auto right = *reinterpret_cast<const Values*>(x + second);
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      S* const pack = k < kPairs / 2 ? left.value : right.value;
      S* const from = angles.interleaved ? pack + 2 * k % kPairs : left.value + k;
      S* const to = angles.interleaved ? from + 1 : right.value + k;
      auto a = load(from), b = load(to);
      angles.turn(position, pair + k, a, b);
      store(from, a);
      store(to, b);
    }
    *reinterpret_cast<Values*>(y + first) = left;
    *reinterpret_cast<Values*>(y + second) = right;
  }
}

template <class T>
__global__ void rotate_any_kernel(Slot x, Slot y, Angles angles, Index count) {
  await_earlier_work();
  const Index half = angles.half;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += Index{gridDim.x} * blockDim.x) {
    const Index head = i / half, pair = i % half;
    const Index first = head * 2 * half + (angles.interleaved ? 2 * pair : pair);
    const Index second = first + (angles.interleaved ? 1 : half);
    T a = load_any<T>(x.data, x.dtype, first), b = load_any<T>(x.data, x.dtype, second);
    angles.turn(angles.position(head / angles.heads), pair, a, b);
    store_any(y.data, y.dtype, first, a);
    store_any(y.data, y.dtype, second, b);
  }
}

}  // namespace

void CudaElementwise::rotate(const Tensor& x, const Rotation& r, const Tensor& y) {
  const Index count = x.numel() / 2;
  if (count == 0) return;
  const Angles angles{r.table.raw(),
                      r.table.dtype(),
                      data_or_null<std::int64_t>(r.positions),
                      r.steps,
                      r.first,
                      r.table.size(0),
                      r.table.size(1) / 2,
                      r.heads,
                      r.interleaved,
                      r.inverse,
                      backend.fault(),
                      {"rotary"}};
  if (packs({&x, &y}, angles.half)) {
    return visit_below_f64(x.dtype(), [&]<class S>(TypeTag<S>) {
      launch_early("rotary", rotate_kernel<S>, blocks_for(count, Index{kThreads} * kPairs), kThreads,
                   backend.stream(), x.data<S>(), y.data<S>(), angles, count);
    });
  }
  visit_compute(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch_early("rotary", rotate_any_kernel<T>, blocks_for(count, kThreads), kThreads, backend.stream(),
                 slot_of(x), slot_of(y), angles, count);
  });
}

void CudaElementwise::swiglu(const Tensor& x, const Tensor& y) {
  const Index count = y.numel(), width = y.size(-1);
  if (count == 0) return;
  if (packs({&x, &y}, width)) {
    return visit_below_f64(x.dtype(), [&]<class S>(TypeTag<S>) {
      launch_early("swiglu", swiglu_kernel<S>, blocks_for(count, Index{kThreads} * kPairs), kThreads,
                   backend.stream(), x.data<S>(), y.data<S>(), count, width);
    });
  }
  visit_compute(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch_early("swiglu", swiglu_any_kernel<T>, blocks_for(count, kThreads), kThreads, backend.stream(),
                 slot_of(x), slot_of(y), count, width);
  });
}

void CudaElementwise::swiglu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const Index count = dy.numel(), width = dy.size(-1);
  if (count == 0) return;
  if (packs({&x, &dy, &dx}, width)) {
    return visit_below_f64(x.dtype(), [&]<class S>(TypeTag<S>) {
      launch_early("swiglu_backward", swiglu_backward_kernel<S>, blocks_for(count, Index{kThreads} * kPairs),
                   kThreads, backend.stream(), x.data<S>(), dy.data<S>(), dx.data<S>(), count, width);
    });
  }
  visit_compute(promote(x.dtype(), dy.dtype()), [&]<class T>(TypeTag<T>) {
    launch_early("swiglu_backward", swiglu_backward_any_kernel<T>, blocks_for(count, kThreads), kThreads,
                 backend.stream(), slot_of(x), slot_of(dy), slot_of(dx), count, width);
  });
}

}  // namespace tandem::cuda
