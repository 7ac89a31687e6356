#include "amp/scale_segments.h"

#include <algorithm>

namespace tandem::amp {

namespace {

// The two stops that exclude one scale from `first` to `last`: those with the highest low and the lowest high
// end.
std::pair<std::size_t, std::size_t> apart(std::span<const ScaleStop> stops, std::size_t first,
                                          std::size_t last) {
  std::pair<std::size_t, std::size_t> found{first, first};
  for (std::size_t i = first; i <= last; ++i) {
    if (stops[i].window.low > stops[found.first].window.low) found.first = i;
    if (stops[i].window.high < stops[found.second].window.high) found.second = i;
  }
  return found;
}

}  // namespace

ScaleWindow common(const ScaleWindow& a, const ScaleWindow& b) {
  return {.low = std::max(a.low, b.low), .high = std::min(a.high, b.high)};
}

ScaleSpans fewest_spans(std::span<const ScaleStop> stops) {
  ScaleSpans found;
  std::size_t first = 0;
  while (first < stops.size()) {
    ScaleWindow window = stops[first].window;
    std::optional<ScaleSpan> reached;  // up to a border
    std::size_t at = first;
    while (!window.empty()) {
      if (at > first && stops[at].border) reached = {first, at, window};
      if (++at == stops.size()) {
        found.spans.push_back({first, at - 1, window});
        return found;
      }
      window = common(window, stops[at].window);
    }
    if (!reached) return {.apart = apart(stops, first, at)};
    found.spans.push_back(*reached);
    first = reached->last;
  }
  return found;
}

}  // namespace tandem::amp
