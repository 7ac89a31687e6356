// Matching of detections to objects by the rules of COCO (cocodataset/cocoapi, cocoeval.py).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "metrics/by_category.h"

namespace tandem::metrics {

// IoU thresholds i·((0.95 − 0.5)/9) + 0.5 in FP64: the last but one is one ulp below 0.9.
inline constexpr std::array<double, 10> kCocoThresholds = {
    0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.8999999999999999, 0.95};
using ThresholdSet = std::uint16_t;  // bit i: at kCocoThresholds[i]
inline constexpr ThresholdSet kAllThresholds = (1U << kCocoThresholds.size()) - 1;

// Area range in pixels², both ends included: 32² is small and medium.
struct AreaRange {
  double least, greatest;
  bool has(double area) const { return area >= least && area <= greatest; }
};
// All, small, medium, large.
inline constexpr std::array<AreaRange, 4> kCocoAreas = {
    {{0.0, 1e10}, {0.0, 1024.0}, {1024.0, 9216.0}, {9216.0, 1e10}}};

inline constexpr std::size_t kCocoMostDetections = 100;  // per image and category

struct CocoMatches {
  struct Outcome {
    ThresholdSet right = 0, wrong = 0;  // neither: the detection is ignored
  };
  struct Detection {
    double score = 0.0;
    std::size_t rank = 0;  // within its image, by score
    std::array<Outcome, kCocoAreas.size()> outcomes;
  };

  std::vector<Detection> detections;  // by score; ties by image, then in the given order
  std::array<std::int64_t, kCocoAreas.size()> objects = {};  // by area range
};

// In each image, the kCocoMostDetections highest-scoring detections are matched in order of score, each to
// the free object of greatest overlap; on ties the later one. Ignored objects (crowds, areas out of range)
// are matched only if no other fits. A crowd can be matched repeatedly. A match with annotation 0 is wrong,
// as in pycocotools.
CocoMatches match_coco(const CategoryBoxes& boxes);

}  // namespace tandem::metrics
