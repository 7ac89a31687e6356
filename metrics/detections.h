// Input of detection metrics: objects with their true boxes, and detections. Host values in FP64; images and
// categories are identified by ids.
#pragma once

#include <cstdint>
#include <span>

namespace tandem::metrics {

// [x, x + width] × [y, y + height] in pixels, continuous, from the corner of the image. VOC's xmin ymin xmax
// ymax, which count pixels from 1, correspond to {xmin − 1, ymin − 1, xmax − xmin + 1, ymax − ymin + 1}.
struct PixelBox {
  double x = 0.0, y = 0.0, width = 0.0, height = 0.0;

  double area() const { return width * height; }
};

struct TrueBox {
  std::int64_t id = 0;  // of the annotation
  std::int64_t image = 0, category = 0;
  PixelBox box;
  double area = 0.0;       // pixels² of the object, not of its box: COCO's `area`, from the mask
  bool crowd = false;      // COCO: many objects in one box
  bool difficult = false;  // VOC
};

struct Detection {
  std::int64_t image = 0, category = 0;
  PixelBox box;
  double score = 0.0;  // higher is more certain
};

// Views; the viewed data must outlive this.
struct GroundTruth {
  std::span<const std::int64_t> images;  // all evaluated ones, including those without objects
  std::span<const std::int64_t> categories;
  std::span<const TrueBox> boxes;
};

}  // namespace tandem::metrics
