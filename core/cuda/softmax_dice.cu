// Sums of the Dice loss and their gradient, fused with softmax, without a copy of all probabilities.
//
// A group of lanes has a row, each lane every group-th class. Sums stay in registers over the rows of a
// group, are folded within the block in f32, and across blocks in f64: the order depends only on shapes.
#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/rows.h"
#include "core/cuda/softmax.h"
#include "core/cuda/targets.h"
#include "core/error.h"
#include "core/kernels/math.h"

namespace tandem::cuda {

namespace {

constexpr Index kSumBlocks = kProcessors * 4;  // number of blocks with partial sums

// A row in the registers of its group.
template <class C, int kHeld>
struct Row {
  C p[kHeld];    // 0 if the row is ignored or missing, and beyond its end
  Index target;  // the counted class, or -1

  // All threads of the block must call it.
  template <class Logits>
  __device__ __forceinline__ void read(const Logits& logits, const Targets& targets, Index row, Index rows,
                                       int classes, int lane, int group, C* shared) {
    const C nothing = -std::numeric_limits<C>::infinity();
    C top = nothing;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = lane + i * group;
      p[i] = row < rows && k < classes ? logits.at(row * classes + k) : nothing;
      top = Larger{}(top, p[i]);
    }
    if (classes > 1) {
      top = group_reduce_all(top, group, shared, Larger{});
      C sum = 0;
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int k = lane + i * group;
        p[i] = k < classes ? math::exp(p[i] - top) : C(0);
        sum += p[i];
      }
      sum = group_reduce_all(sum, group, shared, Sum{});
      const C factor = C(1) / sum;
#pragma unroll
      for (int i = 0; i < kHeld; ++i) p[i] *= factor;
    } else {
      p[0] = math::sigmoid(p[0]);
    }
    target = row < rows ? targets[row] : -1;
    const Index bound = classes > 1 ? classes : 2;
    if (row >= rows || targets.ignores(target)) {
      target = -1;
#pragma unroll
      for (int i = 0; i < kHeld; ++i) p[i] = C(0);
    } else if (target < 0 || target >= bound) {
      if (lane == 0) raise(targets.fault, OpName{"dice_loss"}, target, bound, row);
      target = -1;
#pragma unroll
      for (int i = 0; i < kHeld; ++i) p[i] = std::numeric_limits<C>::quiet_NaN();
    } else if (classes == 1) {
      target = target == 1 ? 0 : -1;
    }
  }
};

// partial [blocks, 3, classes].
template <class Logits, class C, int kHeld>
__global__ void __launch_bounds__(kThreads) dice_sums_kernel(Logits logits, Targets targets, bool squared,
                                                             C* partial, Index rows, int classes, int group) {
  __shared__ C shared[3 * kHeld * kThreads];
  const int lane = static_cast<int>(threadIdx.x) & (group - 1), per_block = kThreads >> log2_of(group);
  C sums[3 * kHeld] = {};
  for (Index first = Index{blockIdx.x} * per_block; first < rows; first += Index{gridDim.x} * per_block) {
    Row<C, kHeld> row;
    row.read(logits, targets, first + (threadIdx.x >> log2_of(group)), rows, classes, lane, group, shared);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const bool on_target = row.target == lane + i * group;
      sums[i] += on_target ? row.p[i] : C(0);
      sums[kHeld + i] += squared ? row.p[i] * row.p[i] : row.p[i];
      sums[2 * kHeld + i] += on_target ? C(1) : C(0);
    }
  }
  __syncthreads();
  column_reduce<3 * kHeld>(sums, group, shared, Sum{});
  if (threadIdx.x >= static_cast<unsigned>(group)) return;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int k = lane + i * group;
    if (k >= classes) continue;
#pragma unroll
    for (int of = 0; of < 3; ++of) partial[(Index{blockIdx.x} * 3 + of) * classes + k] = sums[of * kHeld + i];
  }
}

// One thread per sum.
template <class C>
__global__ void __launch_bounds__(kThreads)
    dice_fold_kernel(const C* partial, C* sums, Index blocks, Index count) {
  const Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  double total = 0;
  for (Index block = 0; block < blocks; ++block) total += static_cast<double>(partial[block * count + i]);
  sums[i] = static_cast<C>(total);
}

template <class Logits, class C, int kHeld>
__global__ void __launch_bounds__(kThreads)
    dice_backward_kernel(Logits logits, Targets targets, bool squared, const C* slopes, Logits dlogits,
                         Index rows, int classes, int group) {
  __shared__ C shared[kWarp];
  const int lane = static_cast<int>(threadIdx.x) & (group - 1), per_block = kThreads >> log2_of(group);
  for (Index first = Index{blockIdx.x} * per_block; first < rows; first += Index{gridDim.x} * per_block) {
    const Index number = first + (threadIdx.x >> log2_of(group));
    Row<C, kHeld> row;
    row.read(logits, targets, number, rows, classes, lane, group, shared);
    C dp[kHeld], dot = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = lane + i * group;
      const C on_all = k < classes ? slopes[classes + k] : C(0);
      dp[i] = squared ? C(2) * on_all * row.p[i] : on_all;
      if (row.target == k) dp[i] += slopes[k];
      dot += row.p[i] * dp[i];
    }
    if (classes > 1) dot = group_reduce_all(dot, group, shared, Sum{});
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = lane + i * group;
      if (number >= rows || k >= classes) continue;
      const C p = row.p[i];
      dlogits.put(number * classes + k, classes > 1 ? p * (dp[i] - dot) : p * (C(1) - p) * dp[i]);
    }
  }
}

// Calls visit with readers of both tensors, the lanes of a group and (as a constant) the classes per lane.
template <class Visitor>
void visit_rows(const Tensor& x, const Tensor& y, const Visitor& visit) {
  const Index classes = x.shape()[1];
  ensure(classes <= kMostDiceClasses, "dice_loss", "{} classes exceed the limit of {}", classes,
         kMostDiceClasses);
  const int group = power_of_two_for(classes, kWarp);
  const auto with = [&](const auto& from, const auto& to) {
    if (classes <= kWarp) return visit(from, to, group, std::integral_constant<int, 1>{});
    if (classes <= 2 * kWarp) return visit(from, to, group, std::integral_constant<int, 2>{});
    visit(from, to, group, std::integral_constant<int, static_cast<int>(kMostDiceClasses / kWarp)>{});
  };
  ensure(x.dtype() == y.dtype(), "dice_loss", "logits {} and gradient {} differ in dtype", to_string(x),
         to_string(y));
  visit_floating(x.dtype(), [&]<class S>(TypeTag<S>) { with(Typed<S>{x.data<S>()}, Typed<S>{y.data<S>()}); });
}

}  // namespace

void CudaSoftmax::dice_sums(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                            const Tensor& sums) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1];
  visit_rows(logits, logits, [&]<class Logits, class Held>(const Logits& x, const Logits&, int group, Held) {
    using C = typename Logits::Element;
    const Index blocks = std::clamp<Index>(ceil_div(rows, Index{kThreads} / group), 1, kSumBlocks);
    const Tensor partial = backend.workspace(Shape{blocks, 3, classes}, dtype_of<C>());
    launch("dice_sums", dice_sums_kernel<Logits, C, Held::value>, blocks, kThreads, backend.stream(), x,
           targets_of(targets, options.ignore_index, backend.fault()), options.squared, partial.data<C>(),
           rows, static_cast<int>(classes), group);
    launch("dice_sums", dice_fold_kernel<C>, ceil_div(3 * classes, kThreads), kThreads, backend.stream(),
           partial.data<C>(), sums.data<C>(), blocks, 3 * classes);
  });
}

void CudaSoftmax::dice_backward(const Tensor& logits, const Tensor& targets, const DiceOptions& options,
                                const Tensor& slopes, const Tensor& dlogits) {
  const Index rows = logits.shape()[0], classes = logits.shape()[1];
  if (rows == 0) return;
  visit_rows(logits, dlogits,
             [&]<class Logits, class Held>(const Logits& x, const Logits& dx, int group, Held) {
               using C = typename Logits::Element;
               const Index blocks = std::min(ceil_div(rows, Index{kThreads} / group), kMostBlocks);
               launch("dice_backward", dice_backward_kernel<Logits, C, Held::value>, blocks, kThreads,
                      backend.stream(), x, targets_of(targets, options.ignore_index, backend.fault()),
                      options.squared, slopes.data<C>(), dx, rows, static_cast<int>(classes), group);
             });
}

}  // namespace tandem::cuda
