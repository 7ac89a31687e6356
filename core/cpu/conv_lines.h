// Layout of the depthwise convolution's row buffers (core/cpu/kernels/conv_depthwise.cpp).
//
// A *line* is a copy of some channels of a source row in panels of 16 with explicit padding:
// [panel][remainder][column][16]. Columns are grouped by their remainder modulo `source_step`, so that under
// one tap the sources of neighbouring outputs are contiguous at any stride. A ring buffer holds the lines
// under the taps of one output row, for a group of panels that fits in L2. Distances are in floats.
#pragma once

#include <vector>

#include "core/cpu/conv_axis.h"

namespace tandem::cpu {

// Offsets of a tap's weight, and of the source of a class's first output, in the first panel.
struct LineTap {
  Index source, weight;
};

// Outputs of one row with the same taps: `count` columns first + i·step.
struct ColumnClass {
  struct Tap {
    Index kernel, source;  // kernel column; position of the source in the line
  };
  Index first, step, count;
  std::vector<Tap> taps;
};

class ConvLines {
 public:
  ConvLines(onednn::Pass pass, const onednn::Convolution& problem);

  const ConvAxis& rows() const { return rows_; }
  const ConvAxis& columns() const { return columns_; }
  const std::vector<ColumnClass>& classes() const { return classes_; }

  Index panels() const { return panels_; }
  Index groups() const { return groups_; }
  Extent group(Index i) const {
    return {i * panels_ / groups_, (i + 1) * panels_ / groups_};
  }                                                                         // range of panels
  Index group_panels() const { return (panels_ + groups_ - 1) / groups_; }  // maximum

  Index panel() const { return remainders_ * length_ * kWidth; }
  Index line() const { return group_panels() * panel(); }
  Index ring() const { return slots_ * line(); }
  // Offset of a source row in the ring.
  Index slot(Index row) const { return row % slots_ * line(); }
  // Offset of every source column in its panel; negative if no output reads it.
  const std::vector<Index>& places() const { return places_; }

  // The taps of output row `row` for one class, except those on rows outside the image.
  void find_taps(Index row, const ColumnClass& c, std::vector<LineTap>& taps) const;

  static constexpr Index kWidth = 16;  // channels per panel

 private:
  Index place(Index column) const;

  ConvAxis rows_, columns_;
  Index panels_, slots_, groups_ = 1;
  Index remainders_, lead_ = 0, length_ = 1;  // lead: columns of the line before image column 0
  std::vector<ColumnClass> classes_;
  std::vector<Index> places_;
};

}  // namespace tandem::cpu
