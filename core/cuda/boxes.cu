// Matching of anchors to objects, and negative mining, one block per image. For the same bits as on a CPU,
// products are not fused (core/kernels/boxes.h), sums are integers, and maxima are of unique ranks.
#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/kernels/boxes.h"
#include "core/kernels/boxes_formulas.h"

namespace tandem::cuda {

namespace {

constexpr Index kObject = 5;            // floats per object
constexpr float kLeastOverlap = 1e-6f;  // minimum overlap for greedy matching
constexpr std::int32_t kNobody = -1;

using Rank = unsigned long long;  // the type that shuffles take

struct Higher {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Arguments of an image's block.
struct Matching {
  const float *anchors, *boxes;
  std::int32_t *label, *unmatched;
  float* code;
  std::int32_t* holder;  // [N,A], object assigned to each anchor
  Rank* best;            // [N,G], for greedy matching
  std::int32_t count, objects;
  BoxMatching matching;
  float threshold, variances[2];

  __device__ __forceinline__ const float* object(std::int32_t g) const {
    return boxes + (Index{blockIdx.x} * objects + g) * kObject;
  }
  __device__ __forceinline__ std::int32_t& holder_of(std::int32_t a) const {
    return holder[Index{blockIdx.x} * count + a];
  }
  __device__ __forceinline__ float overlap(std::int32_t a, const float* object) const {
    const boxes::Corners box{object[0], object[1], object[2], object[3]};
    const boxes::Corners anchor = boxes::corners_of(anchors + Index{4} * a);
    return boxes::overlap(anchor, boxes::area_of(anchor), box, boxes::area_of(box));
  }
  // Rank of the (free) anchor with the largest overlap with the object; every thread gets it.
  __device__ Rank best_of(std::int32_t g, bool free, Rank* shared) const {
    Rank best = 0;
    for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < count; a += kThreads) {
      if (!free || holder_of(a) == kNobody)
        best = Higher{}(best, static_cast<Rank>(boxes::rank_of_overlap(overlap(a, object(g)), a)));
    }
    return block_reduce(best, Rank{0}, shared, Higher{});
  }
};

__device__ void take_greedily(const Matching& m, Rank* shared) {
  Rank* const best = m.best + Index{blockIdx.x} * m.objects;
  for (std::int32_t g = 0; g < m.objects; ++g) {
    const Rank own = m.object(g)[4] > 0.0f ? m.best_of(g, true, shared) : 0;
    if (threadIdx.x == 0) best[g] = own;
  }
  __syncthreads();
  for (;;) {
    std::int32_t next = 0;
    for (std::int32_t g = 1; g < m.objects; ++g)
      if (best[g] > best[next]) next = g;
    if (boxes::overlap_of(best[next]) <= kLeastOverlap) return;
    const std::int32_t taken = boxes::anchor_of(best[next]);
    __syncthreads();
    if (threadIdx.x == 0) {
      m.holder_of(taken) = next;
      best[next] = 0;
    }
    __syncthreads();
    for (std::int32_t g = 0; g < m.objects; ++g) {
      if (best[g] == 0 || boxes::anchor_of(best[g]) != taken) continue;
      const Rank own = m.best_of(g, true, shared);
      if (threadIdx.x == 0) best[g] = own;
      __syncthreads();
    }
  }
}

__device__ void take_by_threshold(const Matching& m) {
  for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < m.count; a += kThreads) {
    if (m.holder_of(a) != kNobody) continue;
    float most = -1.0f;
    std::int32_t whose = kNobody;
    for (std::int32_t g = 0; g < m.objects; ++g) {
      if (!(m.object(g)[4] > 0.0f)) continue;
      const float value = m.overlap(a, m.object(g));
      if (value > most) most = value, whose = g;
    }
    if (most >= m.threshold) m.holder_of(a) = whose;
  }
}

__global__ void __launch_bounds__(kThreads) match_boxes_kernel(Matching m) {
  __shared__ Rank shared[kWarp];
  for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < m.count; a += kThreads)
    m.holder_of(a) = kNobody;
  __syncthreads();
  if (m.matching == BoxMatching::greedy && m.objects > 0) take_greedily(m, shared);
  __syncthreads();
  take_by_threshold(m);
  __syncthreads();
  std::int32_t lost = 0;
  for (std::int32_t g = 0; g < m.objects && m.matching == BoxMatching::argmax; ++g) {
    if (!(m.object(g)[4] > 0.0f)) continue;
    const Rank best = m.best_of(g, false, shared);
    if (threadIdx.x == 0) m.holder_of(boxes::anchor_of(best)) = g;
    __syncthreads();
  }
  for (std::int32_t g = 0; g < m.objects; ++g) {
    if (!(m.object(g)[4] > 0.0f)) continue;
    Rank held = 0;
    for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < m.count; a += kThreads)
      held = Higher{}(held, m.holder_of(a) == g ? Rank{1} : Rank{0});
    lost += block_reduce(held, Rank{0}, shared, Higher{}) == 0;
  }
  if (threadIdx.x == 0) m.unmatched[blockIdx.x] = lost;
  for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < m.count; a += kThreads) {
    const std::int32_t g = m.holder_of(a);
    const Index at = Index{blockIdx.x} * m.count + a;
    m.label[at] = g == kNobody ? 0 : static_cast<std::int32_t>(m.object(g)[4]);
    if (g != kNobody) {
      boxes::encode(m.object(g), m.anchors + Index{4} * a, m.variances, m.code + 4 * at);
    } else {
      for (int i = 0; i < 4; ++i) m.code[4 * at + i] = 0.0f;
    }
  }
}

// ---- Mining

__global__ void __launch_bounds__(kThreads)
    count_positives_kernel(const std::int32_t* label, std::int32_t anchors, std::int32_t* positives) {
  __shared__ int shared[kWarp];
  int count = 0;
  for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < anchors; a += kThreads)
    count += label[Index{blockIdx.x} * anchors + a] != 0;
  count = block_reduce(count, 0, shared, Sum{});
  if (threadIdx.x == 0) positives[blockIdx.x] = count;
}

struct Mining {
  const float* loss;
  const std::int32_t *label, *positives;
  float *class_weight, *box_weight;
  std::int32_t images, anchors;
  MiningOptions options;
};

// The smallest rank of a selected negative, so that `wanted` negatives are selected.
__device__ Rank least_chosen(const Mining& m, Index wanted, int* shared) {
  Rank least = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Rank candidate = least | Rank{1} << bit;
    int count = 0;
    for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < m.anchors; a += kThreads) {
      const Index at = Index{blockIdx.x} * m.anchors + a;
      count += m.label[at] == 0 && boxes::rank_of(m.loss[at], a) >= candidate;
    }
    count = block_reduce(count, 0, shared, Sum{});
    if (count >= wanted) least = candidate;
    if (count == wanted) break;
  }
  return least;
}

__global__ void __launch_bounds__(kThreads) mine_negatives_kernel(Mining m) {
  __shared__ int shared[kWarp];
  int all = 0;
  for (std::int32_t n = static_cast<std::int32_t>(threadIdx.x); n < m.images; n += kThreads)
    all += m.positives[n];
  all = block_reduce(all, 0, shared, Sum{});
  const Index own = m.positives[blockIdx.x], wanted = boxes::negatives_of(m.options, own);
  const bool some = wanted > 0, every = wanted >= m.anchors - own;
  const Rank least = some && !every ? least_chosen(m, wanted, shared) : 0;
  const float share = boxes::share_of(m.options, m.images, own, all);
  for (std::int32_t a = static_cast<std::int32_t>(threadIdx.x); a < m.anchors; a += kThreads) {
    const Index at = Index{blockIdx.x} * m.anchors + a;
    const bool object = m.label[at] != 0;
    const bool mined = !object && some && boxes::rank_of(m.loss[at], a) >= least;
    m.class_weight[at] = object || mined ? share : 0.0f;
    m.box_weight[at] = object ? share : 0.0f;
  }
}

struct CudaBox final : GpuKernels<BoxKernels> {
  using GpuKernels::GpuKernels;

  void match_boxes(const BoxMatch& args) override {
    const Index images = args.boxes.size(0), objects = args.boxes.size(1), anchors = args.anchors.size(0);
    if (images == 0) return;
    const Tensor holder = backend.workspace({images, anchors}, DType::i32),
                 best = backend.workspace({images, objects}, DType::i64);
    launch("match_boxes", match_boxes_kernel, images, kThreads, backend.stream(),
           Matching{.anchors = args.anchors.data<float>(),
                    .boxes = args.boxes.data<float>(),
                    .label = args.label.data<std::int32_t>(),
                    .unmatched = args.unmatched.data<std::int32_t>(),
                    .code = args.code.data<float>(),
                    .holder = holder.data<std::int32_t>(),
                    .best = reinterpret_cast<Rank*>(best.data<std::int64_t>()),
                    .count = static_cast<std::int32_t>(anchors),
                    .objects = static_cast<std::int32_t>(objects),
                    .matching = args.options.matching,
                    .threshold = args.options.threshold,
                    .variances = {args.options.variances[0], args.options.variances[1]}});
  }

  void mine_negatives(const NegativeMining& args) override {
    const Index images = args.label.size(0), anchors = args.label.size(1);
    if (images == 0) return;
    const Tensor positives = backend.workspace({images}, DType::i32);
    launch("mine_negatives", count_positives_kernel, images, kThreads, backend.stream(),
           args.label.data<std::int32_t>(), anchors, positives.data<std::int32_t>());
    launch("mine_negatives", mine_negatives_kernel, images, kThreads, backend.stream(),
           Mining{.loss = args.loss.data<float>(),
                  .label = args.label.data<std::int32_t>(),
                  .positives = positives.data<std::int32_t>(),
                  .class_weight = args.class_weight.data<float>(),
                  .box_weight = args.box_weight.data<float>(),
                  .images = static_cast<std::int32_t>(images),
                  .anchors = static_cast<std::int32_t>(anchors),
                  .options = args.options});
  }
};

}  // namespace

BoxKernels& CudaBackend::boxes() { return own<CudaBox>(kernels_.boxes); }

}  // namespace tandem::cuda
