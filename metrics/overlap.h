// Overlap of two boxes.
#pragma once

#include "metrics/detections.h"

namespace tandem::metrics {

// Intersection over union; 0 for boxes without a common area. The result is w·h/(area + area − w·h) bit for
// bit: products and sums are not contracted, because one ulp decides at thresholds.
double intersection_over_union(const PixelBox& a, const PixelBox& b);

// Intersection over the area of the first box: the share of a detection that lies in a crowd.
double intersection_over_first(const PixelBox& a, const PixelBox& b);

}  // namespace tandem::metrics
