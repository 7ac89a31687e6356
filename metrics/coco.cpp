#include "metrics/coco.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "core/cpu/parallel.h"
#include "core/error.h"
#include "metrics/coco_matching.h"

namespace tandem::metrics {

namespace {

constexpr double kNoFigure = -1.0;  // value of an undefined figure

struct PrecisionFigure {
  std::size_t area;
  std::optional<std::size_t> threshold;  // absent: the mean over all
};
constexpr std::array<PrecisionFigure, 6> kPrecisionFigures = {
    {{0, {}}, {0, 0}, {0, 5}, {1, {}}, {2, {}}, {3, {}}}};

struct RecallFigure {
  std::size_t area, most;  // detections per image
};
constexpr std::array<RecallFigure, 6> kRecallFigures = {
    {{0, 1}, {0, 10}, {0, 100}, {1, 100}, {2, 100}, {3, 100}}};

using Precisions = std::array<double, kCocoRecalls>;

template <std::size_t kCount>
double mean_of(const std::array<double, kCount>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double{kCount};
}

// Precisions at every right detection, by falling score; one list per threshold.
std::array<std::vector<double>, kCocoThresholds.size()> precisions_of_hits(const CocoMatches& matches,
                                                                           std::size_t area) {
  constexpr double kSpacing = 0x1p-52;  // as in pycocotools: a single hit has the precision 1 − 2⁻⁵²
  std::array<std::vector<double>, kCocoThresholds.size()> hits;
  std::array<std::int64_t, kCocoThresholds.size()> wrong{};
  std::int64_t always_wrong = 0;
  for (const CocoMatches::Detection& detection : matches.detections) {
    const CocoMatches::Outcome outcome = detection.outcomes[area];
    if (outcome.wrong == kAllThresholds) {
      ++always_wrong;
      continue;
    }
    for (std::size_t t = 0; t < hits.size(); ++t) {
      wrong[t] += outcome.wrong >> t & 1U;
      if ((outcome.right >> t & 1U) == 0) continue;
      const auto right = static_cast<double>(hits[t].size() + 1);
      hits[t].push_back(right / (static_cast<double>(always_wrong + wrong[t]) + right + kSpacing));
    }
  }
  return hits;
}

// The precision envelope of `hits` at every recall. Hits suffice: between two hits neither recall nor
// envelope rises.
Precisions sampled(std::vector<double> hits, std::int64_t objects) {
  for (std::size_t i = hits.size(); i-- > 1;) hits[i - 1] = std::max(hits[i - 1], hits[i]);
  Precisions result{};
  std::size_t hit = 0;
  for (std::size_t r = 0; r < kCocoRecalls; ++r) {
    const double recall = static_cast<double>(r) * 0.01;  // not r/100: 35·0.01 is above 7/20
    while (hit < hits.size() && static_cast<double>(hit + 1) / static_cast<double>(objects) < recall) ++hit;
    if (hit == hits.size()) break;
    result[r] = hits[hit];
  }
  return result;
}

double mean_recall(const CocoMatches& matches, const RecallFigure& figure) {
  std::int64_t right = 0;
  for (const CocoMatches::Detection& detection : matches.detections)
    if (detection.rank < figure.most) right += std::popcount(detection.outcomes[figure.area].right);
  return static_cast<double>(right) /
         static_cast<double>(matches.objects[figure.area] * std::int64_t{kCocoThresholds.size()});
}

CocoCategory measure_category(const CategoryBoxes& boxes, bool curves) {
  const CocoMatches matches = match_coco(boxes);
  CocoCategory result{.id = boxes.category};
  std::array<std::array<double, kCocoThresholds.size()>, kCocoAreas.size()> means{};
  for (std::size_t a = 0; a < kCocoAreas.size(); ++a) {
    if (matches.objects[a] == 0) continue;
    std::array<std::vector<double>, kCocoThresholds.size()> hits = precisions_of_hits(matches, a);
    for (std::size_t t = 0; t < hits.size(); ++t) {
      const Precisions precisions = sampled(std::move(hits[t]), matches.objects[a]);
      means[a][t] = mean_of(precisions);
      if (curves && a == 0)
        result.precisions.insert(result.precisions.end(), precisions.begin(), precisions.end());
    }
  }
  for (std::size_t i = 0; i < kPrecisionFigures.size(); ++i) {
    const auto& [area, threshold] = kPrecisionFigures[i];
    const double mean = threshold ? means[area][*threshold] : mean_of(means[area]);
    result.figures[i] = matches.objects[area] > 0 ? mean : kNoFigure;
  }
  for (std::size_t i = 0; i < kRecallFigures.size(); ++i)
    result.figures[kPrecisionFigures.size() + i] =
        matches.objects[kRecallFigures[i].area] > 0 ? mean_recall(matches, kRecallFigures[i]) : kNoFigure;
  return result;
}

double mean_over_categories(const std::vector<CocoCategory>& categories, std::size_t figure) {
  double sum = 0.0;
  std::int64_t count = 0;
  for (const CocoCategory& category : categories) {
    if (category.figures[figure] == kNoFigure) continue;
    sum += category.figures[figure];
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kNoFigure;
}

std::vector<std::string> warnings_of(std::span<const TrueBox> boxes) {
  for (const TrueBox& object : boxes)
    if (object.id == 0 && !object.crowd)
      return {
          fmt::format("annotation 0 (image {}) cannot be found: a detection that matches it counts as wrong, "
                      "as in pycocotools; number annotations from 1",
                      object.image)};
  return {};
}

}  // namespace

CocoResult evaluate_coco(const GroundTruth& truth, std::span<const Detection> detections,
                         const CocoOptions& options) {
  const std::vector<CategoryBoxes> boxes = by_category("coco", truth, detections);
  CocoResult result{.categories = std::vector<CocoCategory>(boxes.size()),
                    .warnings = warnings_of(truth.boxes)};
  cpu::parallel_for(true, boxes.size(), [&](std::size_t i) {
    result.categories[i] = measure_category(boxes[i], options.curves);
  });
  for (std::size_t i = 0; i < kCocoFigures.size(); ++i)
    result.figures[i] = mean_over_categories(result.categories, i);
  return result;
}

}  // namespace tandem::metrics
