// Ground truth and detections, checked and told apart by category: what every metric of detectors starts
// with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "metrics/detections.h"

namespace tandem::metrics {

struct CategoryBoxes {
  // `image` is the rank of the image's id among all of them.
  struct True {
    std::size_t image;
    const TrueBox* object;
  };
  struct Found {
    std::size_t image;
    const Detection* detection;
  };

  std::int64_t category = 0;
  std::vector<True> truth;   // by image; of an image as given
  std::vector<Found> found;  // as given
};

// Of every category, by id. The result points into the spans. Throws UserError, which names `metric` and the
// box, for an image, a category or an annotation that is there twice, a box of an image or a category that is
// not listed, coordinates or areas that are not finite, sizes or areas below 0, and scores that are NaN.
std::vector<CategoryBoxes> by_category(std::string_view metric, const GroundTruth& truth,
                                       std::span<const Detection> detections);

}  // namespace tandem::metrics
