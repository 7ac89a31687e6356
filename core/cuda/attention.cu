// Masked softmax over the keys of each query, forward and backward. A group of lanes or a block computes a
// row. Masked elements are not read.
#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "core/cuda/attention_mask.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/rows.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

// Rows of scores [N,…,Tq,Tk]; in scores [Tk] or [N,Tk] each row is one query.
struct ScoreRows {
  Index rows, per_sequence, queries, keys;
  int group;

  int threads() const { return std::max(kThreads, group); }
  Index blocks() const { return ceil_div(rows, threads() / group); }
  __device__ __forceinline__ Index row() const {
    return Index{blockIdx.x} * (blockDim.x / group) + static_cast<int>(threadIdx.x) / group;
  }
  __device__ __forceinline__ int lane() const { return static_cast<int>(threadIdx.x) % group; }
  __device__ __forceinline__ KeyRange seen(const SeenKeys& seen, Index row) const {
    return seen(row / per_sequence, row % queries);
  }
};

ScoreRows rows_of(const Tensor& x) {
  const int rank = x.rank();
  ScoreRows s{x.shape().product(0, rank - 1), rank > 1 ? x.shape().product(1, rank - 1) : 1,
              rank > 1 ? x.size(-2) : 1, x.size(-1), 1};
  // A group is part of a warp, or a block.
  s.group = power_of_two_for(ceil_div(s.keys, 4), kThreads);
  if (s.group > kWarp) s.group = kThreads;
  ensure(ceil_div(s.rows, s.threads() / s.group) <= 0x7fffffff, "masked_softmax",
         "{} has too many rows for a grid", to_string(x));
  return s;
}

template <class Elements>
__global__ void __launch_bounds__(kThreads)
    masked_softmax_kernel(Elements x, Elements y, ScoreRows s, SeenKeys keys) {
  await_earlier_work();
  using C = typename Elements::Element;
  __shared__ ExpSum<C> shared[kWarp];
  const Index row = s.row(), base = row * s.keys;
  const bool valid = row < s.rows;
  const KeyRange seen = valid ? s.seen(keys, row) : KeyRange{0, 0};
  ExpSum<C> held = ExpSum<C>::none();
  for (Index i = seen.first + s.lane(); i < seen.last; i += s.group) held.add(x.at(base + i));
  held = group_reduce_all(held, s.group, shared, JoinSums{});
  if (!valid) return;
  const C top = held.top;
  const C scale = top - top != C(0) ? std::numeric_limits<C>::quiet_NaN() : C(1) / held.sum;
  for (Index i = s.lane(); i < s.keys; i += s.group)
    y.put(base + i, i >= seen.first && i < seen.last ? math::exp(x.at(base + i) - top) * scale : C(0));
}

// dx may be dy, because each thread reads only the elements that it writes.
template <class Elements>
__global__ void __launch_bounds__(kThreads)
    masked_softmax_backward_kernel(Elements y, Elements dy, Elements dx, ScoreRows s, SeenKeys keys) {
  await_earlier_work();
  using C = typename Elements::Element;
  __shared__ C shared[kWarp];
  const Index row = s.row(), base = row * s.keys;
  const bool valid = row < s.rows;
  const KeyRange seen = valid ? s.seen(keys, row) : KeyRange{0, 0};
  C dot = 0;
  for (Index i = seen.first + s.lane(); i < seen.last; i += s.group) dot += dy.at(base + i) * y.at(base + i);
  dot = group_reduce_all(dot, s.group, shared, Sum{});
  if (!valid) return;
  for (Index i = s.lane(); i < s.keys; i += s.group)
    dx.put(base + i, i >= seen.first && i < seen.last ? y.at(base + i) * (dy.at(base + i) - dot) : C(0));
}

// Calls visit with a typed reader if all tensors have one dtype, else with a generic one.
template <class Visitor, class... Tensors>
void visit_elements(const Visitor& visit, const Tensor& x, const Tensors&... others) {
  if (((others.dtype() == x.dtype()) && ...)) {
    visit_floating(x.dtype(), [&]<class S>(TypeTag<S>) {
      visit([](const Tensor& t) { return Typed<S>{t.data<S>()}; });
    });
  } else if (x.dtype() == DType::f64 || ((others.dtype() == DType::f64) || ...)) {
    visit([](const Tensor& t) { return any_of<double>(t); });
  } else {
    visit([](const Tensor& t) { return any_of<float>(t); });
  }
}

}  // namespace

void CudaAttention::masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) {
  if (x.numel() == 0) return;
  const ScoreRows s = rows_of(x);
  const MaskOnDevice on_device(backend, mask, s.queries, s.keys);
  visit_elements(
      [&](const auto& elements) {
        using Elements = decltype(elements(x));
        launch_early("masked_softmax", masked_softmax_kernel<Elements>, s.blocks(), s.threads(),
                     backend.stream(), elements(x), elements(y), s, on_device.seen);
      },
      x, y);
}

void CudaAttention::masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                                            const Tensor& dx) {
  if (y.numel() == 0) return;
  const ScoreRows s = rows_of(y);
  const MaskOnDevice on_device(backend, mask, s.queries, s.keys);
  visit_elements(
      [&](const auto& elements) {
        using Elements = decltype(elements(y));
        launch_early("masked_softmax_backward", masked_softmax_backward_kernel<Elements>, s.blocks(),
                     s.threads(), backend.stream(), elements(y), elements(dy), elements(dx), s,
                     on_device.seen);
      },
      y, dy, dx);
}

AttentionKernels& CudaBackend::attention() { return own<CudaAttention>(kernels_.attention); }

}  // namespace tandem::cuda
