// Images with boxes drawn on them.
#pragma once

#include <span>
#include <string>

#include "core/tensor.h"
#include "models/box_suppression.h"

namespace tandem::tasks {

struct DrawnBox {
  models::UnitBox box;
  Index label = 0;      // whose colour it has (class_colours)
  std::string caption;  // above it, or inside where there is no room; may be empty
};

// u8 [H,W,1] or [H,W,3] → u8 [H,W,3]. Lines and letters grow with the image.
Tensor with_boxes(const Tensor& image, std::span<const DrawnBox> boxes);

}  // namespace tandem::tasks
