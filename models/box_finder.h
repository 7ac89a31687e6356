// Detections of each image from a detector's output.
#pragma once

#include <vector>

#include "models/anchors.h"
#include "models/box_suppression.h"

namespace tandem::models {

// Probabilities are the softmax of the scores in FP32 for any dtype. Images, or the anchors and classes of a
// single image, are computed in parallel with identical bits. Throws UserError naming the image of the
// batch if a score is NaN.
std::vector<std::vector<FoundBox>> find_boxes(const AnchorOutput& output, const Tensor& anchors,
                                              const SuppressionOptions& options);

}  // namespace tandem::models
