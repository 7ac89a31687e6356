#include "metrics/overlap.h"

#include <algorithm>

namespace tandem::metrics {

namespace {

double shared_area(const PixelBox& a, const PixelBox& b) {
  const double width = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
  const double height = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
  return width > 0.0 && height > 0.0 ? width * height : 0.0;
}

}  // namespace

double intersection_over_union(const PixelBox& a, const PixelBox& b) {
  const double shared = shared_area(a, b);
  return shared > 0.0 ? shared / (a.area() + b.area() - shared) : 0.0;
}

double intersection_over_first(const PixelBox& a, const PixelBox& b) {
  const double shared = shared_area(a, b);
  return shared > 0.0 ? shared / a.area() : 0.0;
}

}  // namespace tandem::metrics
