// Where the depthwise convolution (core/cpu/kernels/conv_depthwise.cpp) finds things in its copies of rows.
//
// A copy, a *line*, holds some channels of a source row in panels of 16, with the columns of the padding
// written out: [panel][remainder][column][16]. Columns are kept by their remainder by `source_step`, so that
// under one tap the sources of neighbouring outputs lie side by side at any stride. A ring of lines holds
// what the taps of an output row reach, of a group of panels that leaves room in the second cache. Distances
// count floats.
#pragma once

#include <vector>

#include "core/cpu/conv_axis.h"

namespace tandem::cpu {

// Where the source of a class's first output and the weight of one tap lie, of the first panel.
struct LineTap {
  Index source, weight;
};

// Outputs of one row that share their taps: `count` columns first + i·step.
struct ColumnClass {
  struct Tap {
    Index kernel, source;  // column of the kernel; place of the source in the line
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
  Extent group(Index i) const { return {i * panels_ / groups_, (i + 1) * panels_ / groups_}; }  // of panels
  Index group_panels() const { return (panels_ + groups_ - 1) / groups_; }                      // at most

  Index panel() const { return remainders_ * length_ * kWidth; }
  Index line() const { return group_panels() * panel(); }
  Index ring() const { return slots_ * line(); }
  // Of a source row in the ring.
  Index slot(Index row) const { return row % slots_ * line(); }
  // Of every source column in its panel; negative where no output reads it.
  const std::vector<Index>& places() const { return places_; }

  // The taps of output row `row` for one class, without those on rows outside the image.
  void find_taps(Index row, const ColumnClass& c, std::vector<LineTap>& taps) const;

  static constexpr Index kWidth = 16;  // channels of a panel

 private:
  Index place(Index column) const;

  ConvAxis rows_, columns_;
  Index panels_, slots_, groups_ = 1;
  Index remainders_, lead_ = 0, length_ = 1;  // lead: columns of the line before column 0 of the image
  std::vector<ColumnClass> classes_;
  std::vector<Index> places_;
};

}  // namespace tandem::cpu
