// Segments of a backward pass, each with a loss scale of its own, where no single one fits all gradients.
// Windows and borders alone, without tensors.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tandem::amp {

// log2 of loss scales. Empty where `low` is above `high`.
struct ScaleWindow {
  int low = 0;   // least k at which FP16 makes at most 0.1 % of the values that are not zero zero
  int high = 0;  // greatest k that leaves three bits above the greatest value: 15 - its exponent - 3

  bool empty() const { return low > high; }
  bool holds(int log2) const { return low <= log2 && log2 <= high; }
  friend bool operator==(const ScaleWindow&, const ScaleWindow&) = default;
};

// Empty where they have nothing in common.
ScaleWindow common(const ScaleWindow& a, const ScaleWindow& b);

// What backward comes by on its way from the loss to the input: gradients, and tensors at which the scale may
// change.
struct ScaleStop {
  ScaleWindow window;
  // Of a tensor that alone has a gradient: its gradient may be multiplied by a power of two. That is exact
  // between two scales of its window.
  bool border = false;
};

// Stops at one scale. A border belongs to both of the segments that it parts, whose windows are within its
// own.
struct ScaleSpan {
  std::size_t first = 0, last = 0;  // the last one is among them
  ScaleWindow window;               // what they have in common
  friend bool operator==(const ScaleSpan&, const ScaleSpan&) = default;
};

struct ScaleSpans {
  std::vector<ScaleSpan> spans;  // the fewest that there can be, in the order of the stops; none where
                                 // there are none
  // Where there are none: two stops with no border between them that could part them. The first wants a scale
  // of at least its window's low end, the second one of at most its high end, which lies below.
  std::optional<std::pair<std::size_t, std::size_t>> apart;
};

// Interval stabbing: a segment goes on to the last border that it can reach. What the next one has to hold is
// then the least there can be, so none of the others needs more. Linear, but for what lies behind a border.
ScaleSpans fewest_spans(std::span<const ScaleStop> stops);

}  // namespace tandem::amp
