#include <numeric>

#include "bench/parts.h"
#include "bench/synthetic.h"
#include "metrics/coco.h"

namespace tandem::bench {

namespace {

constexpr std::int64_t kImages = 500, kCategories = 80, kObjects = 7, kDetections = 100, kNearObjects = 21;

// Box in an image of 640×480 pixels; small ones are more frequent than large ones.
metrics::PixelBox synthetic_box(const std::array<double, 4>& point) {
  const auto [x, y, w, h] = point;
  return {400.0 * x, 240.0 * y, 8.0 + 232.0 * w * w, 8.0 + 232.0 * h * h};
}

struct MadeUpSet {
  std::vector<std::int64_t> images, categories;
  std::vector<metrics::TrueBox> truth;
  std::vector<metrics::Detection> detections;

  MadeUpSet() : images(kImages), categories(kCategories) {
    std::iota(images.begin(), images.end(), 1);
    std::iota(categories.begin(), categories.end(), 1);
    for (std::int64_t i = 0; i < kImages * kObjects; ++i) {
      const metrics::PixelBox box = synthetic_box(synthetic_point(i));
      truth.push_back({.id = i + 1,
                       .image = 1 + i / kObjects,
                       .category = 1 + i % kCategories,
                       .box = box,
                       .area = box.area()});
    }
    for (std::int64_t i = 0; i < kImages * kDetections; ++i) detections.push_back(synthetic_detection(i));
  }

  // Some are objects shifted by up to a fifth of their size, the others are unrelated.
  metrics::Detection synthetic_detection(std::int64_t i) const {
    const std::int64_t image = i / kDetections, rank = i % kDetections;
    const auto point = synthetic_point(i);
    metrics::Detection found{image + 1, 1 + i % kCategories, synthetic_box(point), point[3]};
    if (rank < kNearObjects) {
      const auto& object = truth[static_cast<std::size_t>(image * kObjects + rank % kObjects)];
      found.category = object.category;
      found.box = object.box;
      found.box.x += 0.2 * (2.0 * point[0] - 1.0) * object.box.width;
      found.box.y += 0.2 * (2.0 * point[1] - 1.0) * object.box.height;
    }
    return found;
  }
};

}  // namespace

TrainingPtr coco_metric() {
  return std::make_unique<Part>(kImages, [set = MadeUpSet()] {
    return metrics::evaluate_coco({.images = set.images, .categories = set.categories, .boxes = set.truth},
                                  set.detections)
        .figures[0];
  });
}

}  // namespace tandem::bench
