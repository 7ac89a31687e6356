// Cross entropy of logits and class indices, fused with softmax. With class weights w, their sum W, label
// smoothing ε, C classes and target t, the loss of a row is that of PyTorch's cross_entropy:
//   (1-ε)·w[t]·(lse - x[t]) + ε/C · Σ_c w[c]·(lse - x[c]).
//
// Forward reads the logits once and computes maximum and sum of exponentials together; label smoothing reads
// the row again from cache. Backward knows lse and is elementwise: one read and one write. A group of lanes
// or a block has a row in forward, and a piece of a row in backward.
#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/rows.h"
#include "core/cuda/softmax.h"
#include "core/cuda/targets.h"
#include "core/kernels/math.h"

namespace tandem::cuda {

namespace {

constexpr int kMostThreads = 512;

// Class weights; all 1 if null.
template <class C>
struct Weights {
  const void* data = nullptr;
  DType dtype = DType::f32;

  __device__ __forceinline__ C operator[](Index c) const {
    return data == nullptr ? C(1) : load_any<C>(data, dtype, c);
  }
};

template <class C>
Weights<C> weights_of(const Tensor& weights) {
  if (!weights.defined()) return {};
  return {weights.raw(), weights.dtype()};
}

// ---- Forward

template <class Logits, class C>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_kernel(Logits logits, Targets targets, Weights<C> weights, C smoothing, C* loss,
                         C* row_weight, C* lse, Index rows, Index classes, int group) {
  await_earlier_work();
  constexpr int kWidth = Logits::kWidth;
  using Packed = typename Logits::Packed;
  __shared__ ExpSum<C> shared_sums[kWarp];
  __shared__ C shared[kWarp];
  const int lane = static_cast<int>(threadIdx.x) & (group - 1), shift = log2_of(group);
  const int per_block = static_cast<int>(blockDim.x) >> shift;
  for (Index first = Index{blockIdx.x} * per_block; first < rows; first += Index{gridDim.x} * per_block) {
    const Index row = first + (static_cast<int>(threadIdx.x) >> shift), base = row * classes;
    const Index target = row < rows ? targets[row] : -1;
    const bool ignored = targets.ignores(target), counts = !ignored && target >= 0 && target < classes;
    const Index end = counts && row < rows ? classes : 0;  // an empty row if there is nothing to read
    const auto nothing = [] {};
    ExpSum<C> held = ExpSum<C>::none();
    walk_run<kNeverFlush>(
        logits, base, 0, end, lane, group, [&](Index i) { held.add(logits.at(base + i)); },
        [&](Index, const Packed& values) {
          C x[kWidth];
#pragma unroll
          for (int v = 0; v < kWidth; ++v) x[v] = convert<C>(values.value[v]);
          held.template add_all<typename Logits::Stored>(x);
        },
        nothing);
    const ExpSum<C> all = group_reduce_all(held, group, shared_sums, JoinSums{});
    const C top = all.top;
    // An infinite maximum gives NaN, since its difference from itself is NaN.
    const C log_sum = top - top == C(0) ? math::log(all.sum) : std::numeric_limits<C>::quiet_NaN();
    C rest = 0;
    if (smoothing > C(0)) {
      C part[kWidth] = {};
      walk_run<kNeverFlush>(
          logits, base, 0, end, lane, group,
          [&](Index i) { part[0] += weights[i] * (top - logits.at(base + i) + log_sum); },
          [&](Index i, const Packed& values) {
#pragma unroll
            for (int v = 0; v < kWidth; ++v)
              part[v] += weights[i + v] * (top - convert<C>(values.value[v]) + log_sum);
          },
          nothing);
#pragma unroll
      for (int width = kWidth / 2; width > 0; width /= 2) {
#pragma unroll
        for (int v = 0; v < width; ++v) part[v] += part[v + width];
      }
      rest = group_reduce(part[0], group, shared, Sum{});
    }
    if (lane != 0 || row >= rows) continue;
    if (!counts) {
      if (!ignored) raise(targets.fault, OpName{"cross_entropy"}, target, classes, row);
      loss[row] = row_weight[row] = lse[row] = ignored ? C(0) : std::numeric_limits<C>::quiet_NaN();
      continue;
    }
    const C weight = weights[target];
    // top - x + log_sum is more accurate than lse - x for large logits.
    C total = (C(1) - smoothing) * weight * (top - logits.at(base + target) + log_sum);
    if (smoothing > C(0)) total += smoothing / static_cast<C>(classes) * rest;
    loss[row] = total;
    row_weight[row] = weight;
    lse[row] = top + log_sum;
  }
}

// ---- Backward

// One block.
template <class C>
__global__ void __launch_bounds__(kMostThreads)
    sum_weights_kernel(Weights<C> weights, Index classes, C* sum) {
  await_earlier_work();
  __shared__ double shared[kWarp];
  double own = 0;
  for (Index c = threadIdx.x; c < classes; c += blockDim.x) own += static_cast<double>(weights[c]);
  own = group_reduce(own, static_cast<int>(blockDim.x), shared, Sum{});
  if (threadIdx.x == 0) *sum = static_cast<C>(own);
}

// A row is split into `pieces` of `piece` elements. dlogits may be the logits, because each thread reads only
// the elements that it writes. weight_sum is null if all weights are 1 or there is no smoothing.
template <class Logits, class C>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(Logits logits, Targets targets, Weights<C> weights, const C* weight_sum,
                                  C smoothing, const C* lse, const C* dloss, Logits dlogits, Index rows,
                                  Index classes, Index piece, Index pieces, int group) {
  await_earlier_work();
  constexpr int kWidth = Logits::kWidth;
  using Packed = typename Logits::Packed;
  const int lane = static_cast<int>(threadIdx.x) & (group - 1), per_block = kThreads >> log2_of(group);
  const Index tasks = rows * pieces, stride = Index{gridDim.x} * per_block;
  for (Index task = Index{blockIdx.x} * per_block + (threadIdx.x >> log2_of(group)); task < tasks;
       task += stride) {
    const Index row = pieces == 1 ? task : task / pieces, begin = (task - row * pieces) * piece;
    const Index end = begin + piece < classes ? begin + piece : classes, base = row * classes;
    const Index target = targets[row];
    const bool ignored = targets.ignores(target), counts = !ignored && target >= 0 && target < classes;
    const C constant =
        ignored ? C(0) : std::numeric_limits<C>::quiet_NaN();  // gradient of an ignored row (0), or of one
                                                               // with a bad target (NaN)
    C on_target = 0, on_all = 0, factor = 0, shift = 0;
    if (counts) {
      const C slope = dloss[row];
      on_target = slope * (C(1) - smoothing) * weights[target];
      on_all = slope * (smoothing / static_cast<C>(classes));
      factor = on_target + on_all * (weight_sum != nullptr ? *weight_sum : static_cast<C>(classes));
      shift = lse[row];
    }
    const bool weighted = weights.data != nullptr && on_all != C(0);
    const auto gradient = [&](Index c, C x) {
      const C spread = weighted ? on_all * weights[c] : on_all;
      const C value =
          factor * exp_for<typename Logits::Stored>(x - shift) - spread - (c == target ? on_target : C(0));
      return counts ? value : constant;
    };
    walk_run<kNeverFlush>(
        logits, base, begin, end, lane, group,
        [&](Index c) { dlogits.put(base + c, gradient(c, logits.at(base + c))); },
        [&](Index c, const Packed& values) {
          Packed results;
#pragma unroll
          for (int v = 0; v < kWidth; ++v)
            store(&results.value[v], gradient(c + v, convert<C>(values.value[v])));
          dlogits.put(base + c, results);
        },
        [] {});
  }
}

// ---- Choosing

// Calls visit with readers of both tensors: typed ones if their types and 16-byte alignments agree.
template <class Visitor>
void visit_elements(const Tensor& x, const Tensor& y, const Visitor& visit) {
  const auto apart = reinterpret_cast<std::uintptr_t>(x.raw()) - reinterpret_cast<std::uintptr_t>(y.raw());
  const bool alike = x.dtype() == y.dtype() && apart % 16 == 0;
  if (x.dtype() == DType::f64) return visit(any_of<double>(x), any_of<double>(y));
  if (!alike) return visit(any_of<float>(x), any_of<float>(y));
  visit_below_f64(x.dtype(),
                  [&]<class S>(TypeTag<S>) { visit(Typed<S>{x.data<S>()}, Typed<S>{y.data<S>()}); });
}

}  // namespace

void CudaSoftmax::cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& class_weights,
                                const CrossEntropyOptions& options, const Tensor& loss,
                                const Tensor& row_weight, const Tensor& lse) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1];
  if (rows == 0) return;
  visit_elements(logits, logits, [&]<class Logits>(const Logits& x, const Logits&) {
    using C = typename Logits::Element;
    const Index steps = ceil_div(classes, Logits::kWidth);
    const bool few = rows * kWarp < kProcessors * 512;
    int threads = kThreads, group = power_of_two_for(ceil_div(steps, 2), kWarp);
    if (steps >= 1024 || (steps >= 128 && few)) {
      if (steps >= 2048 && rows < kProcessors * 4) threads = kMostThreads;
      group = threads;
    }
    const Index blocks = std::min(ceil_div(rows, threads / group), kMostBlocks);
    launch_early("cross_entropy", cross_entropy_kernel<Logits, C>, blocks, threads, backend.stream(), x,
                 targets_of(targets, options.ignore_index, backend.fault()), weights_of<C>(class_weights),
                 options.label_smoothing, loss.data<C>(), row_weight.data<C>(), lse.data<C>(), rows, classes,
                 group);
  });
}

void CudaSoftmax::cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                                         const Tensor& class_weights, const CrossEntropyOptions& options,
                                         const Tensor& lse, const Tensor& dloss, const Tensor& dlogits) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1];
  if (logits.numel() == 0) return;
  visit_elements(logits, dlogits, [&]<class Logits>(const Logits& x, const Logits& dx) {
    using C = typename Logits::Element;
    const auto weights = weights_of<C>(class_weights);
    Tensor weight_sum;
    if (class_weights.defined() && options.label_smoothing > 0) {
      weight_sum = backend.workspace(Shape{1}, dtype_of<C>());
      launch_early("cross_entropy_backward", sum_weights_kernel<C>, 1, kMostThreads, backend.stream(),
                   weights, classes, weight_sum.data<C>());
    }
    const Index steps = ceil_div(classes, Logits::kWidth);
    const int group = power_of_two_for(ceil_div(steps, 2), kThreads);
    // Four packs per thread, so that every piece has the 16-byte alignment of its row.
    const Index piece = Index{group} * Logits::kWidth * 4, pieces = ceil_div(classes, piece);
    const Index blocks = std::min(ceil_div(rows * pieces, kThreads / group), kMostBlocks);
    launch_early("cross_entropy_backward", cross_entropy_backward_kernel<Logits, C>, blocks, kThreads,
                 backend.stream(), x, targets_of(targets, options.ignore_index, backend.fault()), weights,
                 data_or_null<C>(weight_sum), options.label_smoothing, lse.data<C>(), dloss.data<C>(), dx,
                 rows, classes, piece, pieces, group);
  });
}

}  // namespace tandem::cuda
