// The boxes of each image from SSD's outputs for every anchor.
#pragma once

#include <vector>

#include "models/ssd.h"
#include "tasks/detection/suppression.h"

namespace tandem::tasks {

// Probabilities are the softmax of the scores in FP32, whatever their dtype. Images are spread over the
// OpenMP team, or the anchors and classes of a single one; the bits do not depend on it. Throws UserError
// naming the image of the batch where a score is no number.
std::vector<std::vector<FoundBox>> find_boxes(const models::Ssd::Output& output, const Tensor& anchors,
                                              const SuppressionOptions& options);

}  // namespace tandem::tasks
