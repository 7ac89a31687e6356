#include "metrics/coco_matching.h"

#include <algorithm>
#include <optional>
#include <span>

#include "metrics/overlap.h"

namespace tandem::metrics {

namespace {

using Outcome = CocoMatches::Outcome;
using Truths = std::span<const CategoryBoxes::True>;

bool counts_in(const TrueBox& object, const AreaRange& range) {
  return !object.crowd && range.has(object.area);
}

// The objects of one image, and the thresholds at which each is matched.
class ImageObjects {
 public:
  explicit ImageObjects(Truths truth) : truth_(truth), taken_(truth.size()) {}

  // Matches the next detection.
  std::array<Outcome, kCocoAreas.size()> match(const PixelBox& box) {
    find_candidates(box);
    std::array<Outcome, kCocoAreas.size()> outcomes;
    for (std::size_t a = 0; a < kCocoAreas.size(); ++a) {
      const ThresholdSet unmatched = kCocoAreas[a].has(box.area()) ? kAllThresholds : 0;
      outcomes[a] = candidates_.empty() ? Outcome{.wrong = unmatched} : match_in(a, unmatched);
    }
    return outcomes;
  }

 private:
  struct Candidate {
    std::size_t object;
    double overlap;
  };

  // Collects the objects whose overlap reaches the lowest threshold.
  void find_candidates(const PixelBox& box) {
    candidates_.clear();
    for (std::size_t i = 0; i < truth_.size(); ++i) {
      const TrueBox& object = *truth_[i].object;
      const double overlap =
          object.crowd ? intersection_over_first(box, object.box) : intersection_over_union(box, object.box);
      if (!(overlap < kCocoThresholds[0])) candidates_.push_back({i, overlap});
    }
  }

  // The best free object among those that count in area range `a`, or among the ignored ones.
  std::optional<std::size_t> best(std::size_t a, std::size_t threshold, bool counting) const {
    std::optional<std::size_t> result;
    double least = kCocoThresholds[threshold];
    for (const Candidate& candidate : candidates_) {
      const TrueBox& object = *truth_[candidate.object].object;
      if (counts_in(object, kCocoAreas[a]) != counting) continue;
      if (!object.crowd && taken_[candidate.object][a] >> threshold & 1U) continue;
      if (candidate.overlap < least) continue;
      least = candidate.overlap;
      result = candidate.object;
    }
    return result;
  }

  // `unmatched`: thresholds at which a detection without a match is wrong.
  Outcome match_in(std::size_t a, ThresholdSet unmatched) {
    Outcome outcome;
    for (std::size_t t = 0; t < kCocoThresholds.size(); ++t) {
      const auto bit = static_cast<ThresholdSet>(1U << t);
      const std::optional<std::size_t> counting = best(a, t, true);
      const std::optional<std::size_t> object = counting ? counting : best(a, t, false);
      if (object) taken_[*object][a] |= bit;
      const bool missed = !object || (counting && truth_[*object].object->id == 0);
      if (missed)
        outcome.wrong |= bit & unmatched;
      else if (counting)
        outcome.right |= bit;
    }
    return outcome;
  }

  Truths truth_;
  std::vector<std::array<ThresholdSet, kCocoAreas.size()>> taken_;
  std::vector<Candidate> candidates_;  // of the current detection
};

// Visits the objects and detections of every image with detections. `found` is sorted by image.
template <class Visit>
void for_each_image(Truths truth, std::span<const CategoryBoxes::Found> found, const Visit& visit) {
  std::size_t object = 0;
  for (std::size_t first = 0; first < found.size();) {
    const std::size_t image = found[first].image;
    std::size_t last = first;
    while (last < found.size() && found[last].image == image) ++last;
    while (object < truth.size() && truth[object].image < image) ++object;
    std::size_t end = object;
    while (end < truth.size() && truth[end].image == image) ++end;
    visit(truth.subspan(object, end - object), found.subspan(first, last - first));
    first = last;
  }
}

}  // namespace

CocoMatches match_coco(const CategoryBoxes& boxes) {
  CocoMatches result;
  for (std::size_t a = 0; a < kCocoAreas.size(); ++a)
    result.objects[a] = std::count_if(boxes.truth.begin(), boxes.truth.end(), [&](const auto& each) {
      return counts_in(*each.object, kCocoAreas[a]);
    });
  std::vector<CategoryBoxes::Found> found = boxes.found;
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.image != b.image ? a.image < b.image : a.detection->score > b.detection->score;
  });
  result.detections.reserve(found.size());
  for_each_image(boxes.truth, found, [&](Truths truth, std::span<const CategoryBoxes::Found> of_image) {
    ImageObjects objects(truth);
    for (std::size_t rank = 0; rank < std::min(of_image.size(), kCocoMostDetections); ++rank) {
      const Detection& detection = *of_image[rank].detection;
      result.detections.push_back({detection.score, rank, objects.match(detection.box)});
    }
  });
  std::stable_sort(result.detections.begin(), result.detections.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  return result;
}

}  // namespace tandem::metrics
