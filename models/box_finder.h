// Boxes of each image from what a detector says of every anchor.
#pragma once

#include <vector>

#include "models/anchors.h"
#include "models/box_suppression.h"

namespace tandem::models {

// Probabilities are the softmax of the scores in FP32, whatever their dtype. Images are spread over the
// OpenMP team, or the anchors and classes of a single one; the bits do not depend on it. Throws UserError
// naming the image of the batch where a score is no number.
std::vector<std::vector<FoundBox>> find_boxes(const AnchorOutput& output, const Tensor& anchors,
                                              const SuppressionOptions& options);

}  // namespace tandem::models
