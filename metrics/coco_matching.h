// The detections of a category that are right, by the rules of COCO (cocodataset/cocoapi, cocoeval.py).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "metrics/by_category.h"

namespace tandem::metrics {

// i·((0.95 − 0.5)/9) + 0.5 in FP64: the one before the last is one ulp below 0.9.
inline constexpr std::array<double, 10> kCocoThresholds = {
    0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.8999999999999999, 0.95};
using ThresholdSet = std::uint16_t;  // bit i: at kCocoThresholds[i]
inline constexpr ThresholdSet kAllThresholds = (1U << kCocoThresholds.size()) - 1;

// pixels², both ends included: 32² is small and medium.
struct AreaRange {
  double least, greatest;
  bool has(double area) const { return area >= least && area <= greatest; }
};
// All, small, medium, large.
inline constexpr std::array<AreaRange, 4> kCocoAreas = {
    {{0.0, 1e10}, {0.0, 1024.0}, {1024.0, 9216.0}, {9216.0, 1e10}}};

inline constexpr std::size_t kCocoMostDetections = 100;  // of an image and category

struct CocoMatches {
  struct Outcome {
    ThresholdSet right = 0, wrong = 0;  // in neither: the detection does not count
  };
  struct Detection {
    double score = 0.0;
    std::size_t rank = 0;  // among those of its image, by score
    std::array<Outcome, kCocoAreas.size()> outcomes;
  };

  std::vector<Detection> detections;                         // by score; ties by image, then as given
  std::array<std::int64_t, kCocoAreas.size()> objects = {};  // to be found
};

// Per image the surest kCocoMostDetections, each in turn, take the object of the greatest overlap that is
// left, of equal ones the later; objects that do not count (crowds, areas out of range) only where no other
// fits. A crowd can be taken any number of times. What takes annotation 0 is wrong, as pycocotools has it.
CocoMatches match_coco(const CategoryBoxes& boxes);

}  // namespace tandem::metrics
