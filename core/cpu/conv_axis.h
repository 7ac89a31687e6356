// One axis of a convolution in gather form: the sources that each output sums, and their kernel taps.
//
//   forward         y[o]  sums x[o·stride - padding + k·dilation] over all taps k;
//   input_gradient  dx[o] sums dy[(o + padding - k·dilation)/stride] over the taps whose division is exact.
//
// Outputs first + i·step have the same taps and form a class: one class in forward, one per remainder modulo
// the stride in the input gradient. Sources of neighbouring outputs of a class are `source_step` apart.
#pragma once

#include <optional>

#include "core/cpu/onednn.h"

namespace tandem::cpu {

// Half-open range.
struct Extent {
  Index first, last;
  Index count() const { return last - first; }
};

struct ConvAxis {
  // axis 0: rows, 1: columns. The filter gradient reads like forward.
  ConvAxis(onednn::Pass pass, const onednn::Convolution& problem, int axis);

  Index outputs, sources, kernel;
  Index stride, padding, dilation;
  bool gradient;  // input gradient

  Index classes() const { return gradient ? stride : 1; }
  Index step() const { return classes(); }  // between outputs of a class
  Index source_step() const { return gradient ? 1 : stride; }
  // Number of outputs in the class that starts at `first` < classes().
  Index count(Index first) const { return (outputs - first + step() - 1) / step(); }

  // The source of output `o` under tap `k`, in the image or its padding, if there is one.
  std::optional<Index> source(Index o, Index k) const;
  // Range of image positions that contains the sources of output `o`. Both ends are monotonic in o.
  Extent window(Index o) const;
  // Maximum number of sources in a window, at least 1.
  Index reach() const;
};

}  // namespace tandem::cpu
