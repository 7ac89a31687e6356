// Overlap of two boxes.
#pragma once

#include "metrics/detections.h"

namespace tandem::metrics {

// What two boxes share over what they cover together; 0 unless they share an area. To the last bit the value
// of the formula w·h/(area + area − w·h): products and sums are not contracted, since one ulp decides at
// thresholds.
double intersection_over_union(const PixelBox& a, const PixelBox& b);

// What they share over the area of the first: how far a detection lies in a crowd.
double intersection_over_first(const PixelBox& a, const PixelBox& b);

}  // namespace tandem::metrics
