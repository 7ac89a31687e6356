// One axis of a convolution as a gathering pass sees it: which sources an output sums, under which taps of
// the kernel.
//
//   forward         y[o]  sums x[o·stride - padding + k·dilation] over all taps k;
//   input_gradient  dx[o] sums dy[(o + padding - k·dilation)/stride] over the taps whose division is exact.
//
// Outputs first + i·step share their taps and are a class: all of them in forward, one class for each
// remainder by the stride in the input gradient. Their sources follow one another at `source_step`.
#pragma once

#include <optional>

#include "core/cpu/onednn.h"

namespace tandem::cpu {

// Half open.
struct Extent {
  Index first, last;
  Index count() const { return last - first; }
};

struct ConvAxis {
  // axis 0: rows, 1: columns. A filter's gradient reads as forward does.
  ConvAxis(onednn::Pass pass, const onednn::Convolution& problem, int axis);

  Index outputs, sources, kernel;
  Index stride, padding, dilation;
  bool gradient;  // of the input

  Index classes() const { return gradient ? stride : 1; }
  Index step() const { return classes(); }  // between outputs of a class
  Index source_step() const { return gradient ? 1 : stride; }
  // Outputs of the class whose first is `first` < classes().
  Index count(Index first) const { return (outputs - first + step() - 1) / step(); }

  // The source of output `o` under tap `k`, in the image or in its padding; absent where there is none.
  std::optional<Index> source(Index o, Index k) const;
  // What contains the sources of output `o` that lie in the image. Neither end decreases with o.
  Extent window(Index o) const;
  // The most sources that a window has, at least 1.
  Index reach() const;
};

}  // namespace tandem::cpu
