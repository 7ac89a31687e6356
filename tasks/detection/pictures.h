// Drawing of boxes on images.
#pragma once

#include <span>
#include <string>

#include "core/tensor.h"
#include "models/box_suppression.h"

namespace tandem::tasks {

struct DrawnBox {
  models::UnitBox box;
  Index label = 0;      // selects the colour (class_colours)
  std::string caption;  // above the box, or inside without room above; may be empty
};

// u8 [H,W,1] or [H,W,3] → u8 [H,W,3]. Lines and letters scale with the image.
Tensor with_boxes(const Tensor& image, std::span<const DrawnBox> boxes);

}  // namespace tandem::tasks
