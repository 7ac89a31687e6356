#include "samples/placing.h"

#include <algorithm>

namespace tandem::datasets {

namespace {

constexpr double kMostOverlap = 0.15;
constexpr int kPlaces = 20;

double overlap_of(const Rect& a, const Rect& b) {
  const Index height = std::min(a.bottom(), b.bottom()) - std::max(a.top, b.top);
  const Index width = std::min(a.right(), b.right()) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const Index common = height * width;
  return static_cast<double>(common) / static_cast<double>(a.height * a.width + b.height * b.width - common);
}

}  // namespace

bool find_place(Rect& to, Index side, std::span<const Rect> earlier, RandomStream& random) {
  const auto at = [&](Index extent) {
    return static_cast<Index>(random.below(static_cast<std::uint32_t>(side - extent + 1)));
  };
  for (int place = 0; place < kPlaces; ++place) {
    to.top = at(to.height);
    to.left = at(to.width);
    if (std::ranges::none_of(earlier,
                             [&](const Rect& other) { return overlap_of(other, to) > kMostOverlap; }))
      return true;
  }
  return false;
}

}  // namespace tandem::datasets
