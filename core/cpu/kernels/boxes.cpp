// Matching of anchors to objects, and negative mining. One thread handles each image.
#include "core/kernels/boxes.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/error.h"
#include "core/kernels/boxes_formulas.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kObject = 5;            // floats per object
constexpr float kLeastOverlap = 1e-6f;  // minimum overlap for greedy matching
constexpr std::int32_t kNobody = -1;

// Anchors as corners, one array per coordinate.
class AnchorCorners {
 public:
  explicit AnchorCorners(const Tensor& anchors)
      : count_(anchors.size(0)), values_(workspace<float>({5, anchors.size(0)})) {
    const float* const from = anchors.data<float>();
    for (Index a = 0; a < count_; ++a) {
      const boxes::Corners corners = boxes::corners_of(from + 4 * a);
      float* const to = values_.data<float>() + a;
      to[0] = corners.x1, to[count_] = corners.y1, to[2 * count_] = corners.x2, to[3 * count_] = corners.y2;
      to[4 * count_] = boxes::area_of(corners);
    }
  }
  Index count() const { return count_; }

  // Overlaps (IoU) of all anchors with one object.
  void overlaps(const float* object, float* out) const {
    const boxes::Corners box{object[0], object[1], object[2], object[3]};
    const float area = boxes::area_of(box);
    const float *x1 = values_.data<float>(), *y1 = x1 + count_, *x2 = y1 + count_, *y2 = x2 + count_,
                *areas = y2 + count_;
#pragma omp simd
    for (Index a = 0; a < count_; ++a)
      out[a] = boxes::overlap({x1[a], y1[a], x2[a], y2[a]}, areas[a], box, area);
  }

 private:
  Index count_;
  Tensor values_;
};

// The objects of one image, and the object assigned to each anchor.
class ImageMatch {
 public:
  // `overlaps`: workspace of one row of anchors per object.
  ImageMatch(const AnchorCorners& anchors, const float* objects, Index count, const BoxMatchOptions& options,
             float* overlaps)
      : anchors_(anchors),
        options_(options),
        overlaps_(overlaps),
        holder_(static_cast<std::size_t>(anchors.count()), kNobody) {
    for (Index g = 0; g < count; ++g)
      if (objects[g * kObject + 4] > 0.0f) objects_.push_back(objects + g * kObject);
    for (std::size_t g = 0; g < objects_.size(); ++g) anchors.overlaps(objects_[g], row(g));
  }

  void match() {
    if (options_.matching == BoxMatching::greedy) take_greedily();
    take_by_threshold();
    if (options_.matching == BoxMatching::argmax)
      for (std::size_t g = 0; g < objects_.size(); ++g)
        holder(boxes::anchor_of(best_of(g))) = static_cast<std::int32_t>(g);
  }

  const float* object_of(Index anchor) const {
    const std::int32_t g = holder_[static_cast<std::size_t>(anchor)];
    return g == kNobody ? nullptr : objects_[static_cast<std::size_t>(g)];
  }
  std::int32_t unmatched() const {
    std::vector<char> seen(objects_.size());
    for (const std::int32_t g : holder_)
      if (g != kNobody) seen[static_cast<std::size_t>(g)] = 1;
    return static_cast<std::int32_t>(std::ranges::count(seen, 0));
  }

 private:
  float* row(std::size_t object) { return overlaps_ + object * static_cast<std::size_t>(anchors_.count()); }
  std::int32_t& holder(Index anchor) { return holder_[static_cast<std::size_t>(anchor)]; }

  // Rank of the (free) anchor with the largest overlap with the object; 0 if there is none.
  std::uint64_t best_of(std::size_t object, bool free = false) {
    const float* const overlaps = row(object);
    std::uint64_t best = 0;
    for (Index a = 0; a < anchors_.count(); ++a)
      if (!free || holder(a) == kNobody)
        best = std::max(best, boxes::rank_of_overlap(overlaps[a], static_cast<std::int32_t>(a)));
    return best;
  }

  void take_greedily() {
    std::vector<std::uint64_t> best(objects_.size());
    for (std::size_t g = 0; g < best.size(); ++g) best[g] = best_of(g, true);
    for (std::size_t left = best.size(); left > 0; --left) {
      const auto next = static_cast<std::size_t>(std::ranges::max_element(best) - best.begin());
      if (boxes::overlap_of(best[next]) <= kLeastOverlap) return;
      const std::int32_t taken = boxes::anchor_of(best[next]);
      holder(taken) = static_cast<std::int32_t>(next);
      best[next] = 0;
      for (std::size_t g = 0; g < best.size(); ++g)
        if (best[g] != 0 && boxes::anchor_of(best[g]) == taken) best[g] = best_of(g, true);
    }
  }

  // Assigns each free anchor to the object with the largest overlap; ties go to the first object.
  void take_by_threshold() {
    std::vector<float> most(holder_.size(), -1.0f);
    std::vector<std::int32_t> whose(holder_.size(), kNobody);
    for (std::size_t g = 0; g < objects_.size(); ++g) {
      const float* const overlaps = row(g);
      for (std::size_t a = 0; a < most.size(); ++a) {
        if (overlaps[a] > most[a]) most[a] = overlaps[a], whose[a] = static_cast<std::int32_t>(g);
      }
    }
    for (std::size_t a = 0; a < most.size(); ++a)
      if (holder_[a] == kNobody && most[a] >= options_.threshold) holder_[a] = whose[a];
  }

  const AnchorCorners& anchors_;
  const BoxMatchOptions& options_;
  float* const overlaps_;  // [objects][anchors]
  std::vector<const float*> objects_;
  std::vector<std::int32_t> holder_;  // index into objects_ per anchor
};

// Selects the hardest negatives of one image.
void mine(std::span<const float> loss, std::span<const std::int32_t> label, Index wanted, float* chosen) {
  std::vector<std::uint64_t> ranks;
  ranks.reserve(loss.size());
  for (std::size_t a = 0; a < loss.size(); ++a)
    if (label[a] == 0) ranks.push_back(boxes::rank_of(loss[a], static_cast<std::int32_t>(a)));
  const auto count =
      static_cast<std::ptrdiff_t>(std::min<std::size_t>(ranks.size(), static_cast<std::size_t>(wanted)));
  if (count < static_cast<std::ptrdiff_t>(ranks.size()))
    std::nth_element(ranks.begin(), ranks.begin() + count, ranks.end(), std::greater<>());
  for (std::ptrdiff_t i = 0; i < count; ++i)
    chosen[boxes::anchor_of(ranks[static_cast<std::size_t>(i)])] = 1.0f;
}

struct CpuBox final : BoxKernels {
  void match_boxes(const BoxMatch& args) override {
    const AnchorCorners anchors(args.anchors);
    const Index images = args.boxes.size(0), objects = args.boxes.size(1), count = anchors.count();
    const Tensor overlaps = workspace<float>({images, objects, count});
    parallel_for(images > 1, images, [&](Index n) {
      ImageMatch image(anchors, args.boxes.data<float>() + n * objects * kObject, objects, args.options,
                       overlaps.data<float>() + n * objects * count);
      image.match();
      std::int32_t* const label = args.label.data<std::int32_t>() + n * count;
      float* const code = args.code.data<float>() + n * count * 4;
      std::fill_n(code, count * 4, 0.0f);
      for (Index a = 0; a < count; ++a) {
        const float* const object = image.object_of(a);
        label[a] = object ? static_cast<std::int32_t>(object[4]) : 0;
        if (object)
          boxes::encode(object, args.anchors.data<float>() + 4 * a, args.options.variances.data(),
                        code + 4 * a);
      }
      args.unmatched.data<std::int32_t>()[n] = image.unmatched();
    });
  }

  void mine_negatives(const NegativeMining& args) override {
    const Index images = args.label.size(0), anchors = args.label.size(1);
    std::vector<Index> positives(static_cast<std::size_t>(images));
    parallel_for(images > 1, images, [&](Index n) {
      const auto own = static_cast<std::size_t>(n * anchors), size = static_cast<std::size_t>(anchors);
      const std::span label(args.label.data<std::int32_t>() + own, size);
      float* const chosen = args.class_weight.data<float>() + own;
      const Index count = anchors - std::ranges::count(label, 0);
      for (std::size_t a = 0; a < size; ++a) chosen[a] = label[a] != 0 ? 1.0f : 0.0f;
      mine({args.loss.data<float>() + own, size}, label, boxes::negatives_of(args.options, count), chosen);
      positives[static_cast<std::size_t>(n)] = count;
    });
    const Index all = std::accumulate(positives.begin(), positives.end(), Index{0});
    parallel_for(images * anchors >= kParallelElements, images, [&](Index n) {
      const float share = boxes::share_of(args.options, images, positives[static_cast<std::size_t>(n)], all);
      for (Index i = n * anchors; i < (n + 1) * anchors; ++i) {
        float& weight = args.class_weight.data<float>()[i];
        weight *= share;
        args.box_weight.data<float>()[i] = args.label.data<std::int32_t>()[i] != 0 ? weight : 0.0f;
      }
    });
  }
};

}  // namespace

BoxKernels& CpuBackend::boxes() { return instance<CpuBox>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
