// Validation and grouping of ground truth and detections by category, the first step of every detection
// metric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "metrics/detections.h"

namespace tandem::metrics {

struct CategoryBoxes {
  // `image` is the rank of the image's id.
  struct True {
    std::size_t image;
    const TrueBox* object;
  };
  struct Found {
    std::size_t image;
    const Detection* detection;
  };

  std::int64_t category = 0;
  std::vector<True> truth;   // by image, then in the given order
  std::vector<Found> found;  // in the given order
};

// Groups the boxes by category, in the order of ids. The result points into the spans. Throws UserError with
// `metric` and the box for repeated images, categories or annotations, boxes of unlisted images or
// categories, coordinates or areas that are not finite, negative sizes or areas, and NaN scores.
std::vector<CategoryBoxes> by_category(std::string_view metric, const GroundTruth& truth,
                                       std::span<const Detection> detections);

}  // namespace tandem::metrics
