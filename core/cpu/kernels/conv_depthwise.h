// Helpers of all passes of depthwise convolution. Each channel has its own filter, so a vector holds sixteen
// channels and nothing is broadcast. Rows of the source are widened into a ring buffer of lines
// (core/cpu/conv_lines.h); every dtype, stride and dilation uses the same loops.
#pragma once

#include <algorithm>
#include <span>

#include "core/cpu/conv_lines.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/conv_direct.h"
#include "core/cpu/kernels/simd.h"

namespace tandem::cpu::TANDEM_LEVEL {

// A range of channels in one row of an image; `pixels` points at channel `channels.first`.
template <class S>
struct ChannelRow {
  const S* pixels;
  Index stride;
  Range channels;
};

// Copies each pixel x of the row with places[x] >= 0 to to + places[x], panel by panel. Unused channels of
// the last panel are set to zero.
template <class S>
void copy_to_panels(const ChannelRow<S>& row, std::span<const Index> places, Index panel, float* to) {
  const S* pixel = row.pixels + row.channels.first;
  const Index count = row.channels.count(), whole = count / kLanes * kLanes;
  const int rest = static_cast<int>(count - whole);
  for (const Index place : places) {
    if (place >= 0) {
      float* at = to + place;
      for (Index c = 0; c < whole; c += kLanes, at += panel) store(at, load(pixel + c));
      if (rest > 0) store(at, load_first(pixel + whole, rest));
    }
    pixel += row.stride;
  }
}

// Ring buffer of widened lines for one group of channels, reused for all images.
template <class S>
class LineRing {
 public:
  // `memory` holds lines.ring() floats.
  LineRing(const ConvLines& lines, Index channels, float* memory)
      : lines_(lines), channels_(channels), memory_(memory) {
    std::fill_n(memory, lines.ring(), 0.0f);  // padding; images overwrite only the interior
  }

  void begin(const S* image, Range channels) {
    image_ = image;
    group_ = channels;
    filled_ = 0;
  }
  // Loads all rows that output row `row` reads. Rows of an image must ascend.
  const float* reach(Index row) {
    const Extent window = lines_.rows().window(row);
    const Index width = lines_.columns().sources * channels_;
    for (Index y = std::max(filled_, window.first); y < window.last; ++y)
      copy_to_panels(ChannelRow<S>{image_ + y * width, channels_, group_}, std::span(lines_.places()),
                     lines_.panel(), memory_ + lines_.slot(y));
    filled_ = std::max(filled_, window.last);
    return memory_;
  }

 private:
  const ConvLines& lines_;
  Index channels_;
  float* memory_;
  const S* image_ = nullptr;
  Range group_{};
  Index filled_ = 0;  // rows before this one are loaded or not needed
};

// A range of output rows for one group of channels of one image.
struct DepthwiseUnit {
  Index image;
  Range panels, channels, rows;
};

// Calls visit(unit) for part `part` of `parts` of all rows, groups and images.
template <class Visit>
void for_each_unit(const ConvLines& lines, Index batch, Index channels, int part, int parts, Visit&& visit) {
  const Index rows = lines.rows().outputs;
  const Range mine = part_of(batch * lines.groups() * rows, part, parts);
  for (Index row = mine.first; row < mine.last;) {
    const Index unit = row / rows, begin = unit * rows, last = std::min(begin + rows, mine.last);
    const Extent group = lines.group(unit % lines.groups());
    visit(DepthwiseUnit{unit / lines.groups(),
                        {group.first, group.last},
                        {group.first * kLanes, std::min(group.last * kLanes, channels)},
                        {row - begin, last - begin}});
    row = last;
  }
}

}  // namespace tandem::cpu::TANDEM_LEVEL
