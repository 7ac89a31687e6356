// Segments of a backward pass with a loss scale each, for gradients that no single scale fits. Windows and
// borders only, no tensors.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tandem::amp {

// log2 of loss scales. Empty if `low` is above `high`.
struct ScaleWindow {
  int low = 0;   // smallest k at which FP16 flushes at most 0.1 % of the non-zero values
  int high = 0;  // largest k that leaves three bits above the largest value: 15 - its exponent - 3

  bool empty() const { return low > high; }
  bool holds(int log2) const { return low <= log2 && log2 <= high; }
  friend bool operator==(const ScaleWindow&, const ScaleWindow&) = default;
};

// Intersection; may be empty.
ScaleWindow common(const ScaleWindow& a, const ScaleWindow& b);

// A stop of backward on its way from the loss to the input: a gradient, or a tensor at which the scale may
// change.
struct ScaleStop {
  ScaleWindow window;
  // The only live gradient belongs to this tensor, so it may be multiplied by a power of two; exact between
  // two scales of its window.
  bool border = false;
};

// Stops with one scale. A border belongs to both segments that it separates; their windows are within its
// own.
struct ScaleSpan {
  std::size_t first = 0, last = 0;  // inclusive
  ScaleWindow window;               // intersection of the stops' windows
  friend bool operator==(const ScaleSpan&, const ScaleSpan&) = default;
};

struct ScaleSpans {
  std::vector<ScaleSpan> spans;  // the minimum number, in the order of the stops; empty if impossible
  // If impossible: two stops that no border between them can separate. The first needs a scale of at least
  // its window's low end, the second one of at most its lower high end.
  std::optional<std::pair<std::size_t, std::size_t>> apart;
};

// Interval stabbing: each segment extends to the last border that it can reach. The next one then has the
// fewest stops, so the number of segments is minimal. Linear, except for the stops behind a border.
ScaleSpans fewest_spans(std::span<const ScaleStop> stops);

}  // namespace tandem::amp
