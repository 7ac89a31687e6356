#include "core/cpu/conv_panels.h"

#include <algorithm>
#include <optional>

namespace tandem::cpu {

using onednn::Convolution;

namespace {

// Sets the offsets of the classes in the packed filter.
void place_weights(ConvPanels& panels) {
  for (PixelClass& c : panels.classes) {
    c.weights = panels.weights;
    panels.weights += panels.weights_of(c, panels.out.channels);
  }
}

ConvPanels forward_panels(const Convolution& p, Index depth) {
  const auto& o = p.options;
  ConvPanels panels{.in = {p.height, p.width, p.channels},
                    .out = {p.out_height, p.out_width, p.out_channels}};
  panels.depth = depth;
  panels.whole_rows = p.channels % kPanelChannels != 0;
  panels.blocks = panels.whole_rows ? 1 : p.channels / kPanelChannels;
  panels.pixel = panels.whole_rows ? p.channels : kPanelChannels / depth;
  panels.padding = {o.padding[0], o.padding[1]};
  panels.height = std::max(p.height + o.padding[0],
                           (p.out_height - 1) * o.stride[0] + (p.kernel_height - 1) * o.dilation[0] + 1);
  panels.width = std::max(p.width + o.padding[1],
                          (p.out_width - 1) * o.stride[1] + (p.kernel_width - 1) * o.dilation[1] + 1);
  panels.pixel_step = o.stride[1] * panels.pixel;
  panels.row_step = o.stride[0] * panels.width * panels.pixel;
  panels.block_size = panels.height * panels.width * panels.pixel;
  // In unpadded rows the taps of a kernel row are one run.
  panels.run = panels.whole_rows ? p.kernel_width * p.channels : panels.pixel;
  PixelClass c{.count = {p.out_height, p.out_width}, .taps = {}, .kernel = {}};
  for (Index kh = 0; kh < p.kernel_height; ++kh) {
    for (Index kw = 0; kw < (panels.whole_rows ? 1 : p.kernel_width); ++kw) {
      c.taps.push_back((kh * o.dilation[0] * panels.width + kw * o.dilation[1]) * panels.pixel);
      c.kernel.push_back({kh, kw});
    }
  }
  panels.classes.push_back(std::move(c));
  return panels;
}

// dx[s·i + a] gathers dy[i + (a + padding - k·dilation)/s] over the taps k for which the division is exact.
struct GradientAxis {
  Index stride, dilation, padding, kernel, extent;

  Index count(Index a) const { return (extent - a + stride - 1) / stride; }
  std::optional<Index> offset(Index a, Index k) const {
    const Index shifted = a + padding - k * dilation;
    return shifted % stride == 0 ? std::optional(shifted / stride) : std::nullopt;
  }
  // Lowest offset of a tap (at most 0), and highest position that the last pixel of a class reads.
  std::array<Index, 2> reach() const {
    Index lowest = 0, highest = 0;
    for (Index a = 0; a < stride; ++a) {
      for (Index k = 0; k < kernel; ++k) {
        const auto q = offset(a, k);
        if (!q) continue;
        lowest = std::min(lowest, *q);
        highest = std::max(highest, count(a) - 1 + *q);
      }
    }
    return {lowest, highest};
  }
};

ConvPanels input_gradient_panels(const Convolution& p, Index depth) {
  const auto& o = p.options;
  ConvPanels panels{.in = {p.out_height, p.out_width, p.out_channels},
                    .out = {p.height, p.width, p.channels}};
  const GradientAxis rows{o.stride[0], o.dilation[0], o.padding[0], p.kernel_height, p.height};
  const GradientAxis columns{o.stride[1], o.dilation[1], o.padding[1], p.kernel_width, p.width};
  const auto down = rows.reach(), across = columns.reach();
  panels.depth = depth;
  panels.blocks = p.out_channels / kPanelChannels;
  panels.pixel = panels.run = panels.pixel_step = kPanelChannels / depth;
  panels.padding = {-down[0], -across[0]};
  panels.height = std::max(panels.in.height, down[1] + 1) + panels.padding[0];
  panels.width = std::max(panels.in.width, across[1] + 1) + panels.padding[1];
  panels.row_step = panels.width * panels.pixel;
  panels.block_size = panels.height * panels.width * panels.pixel;
  for (Index a = 0; a < o.stride[0]; ++a) {
    for (Index b = 0; b < o.stride[1]; ++b) {
      PixelClass c{.first = {a, b},
                   .step = o.stride,
                   .count = {rows.count(a), columns.count(b)},
                   .taps = {},
                   .kernel = {}};
      for (Index kh = 0; kh < p.kernel_height; ++kh) {
        for (Index kw = 0; kw < p.kernel_width; ++kw) {
          const auto y = rows.offset(a, kh), x = columns.offset(b, kw);
          if (!y || !x) continue;
          c.taps.push_back(((panels.padding[0] + *y) * panels.width + panels.padding[1] + *x) * panels.pixel);
          c.kernel.push_back({kh, kw});
        }
      }
      panels.classes.push_back(std::move(c));
    }
  }
  return panels;
}

}  // namespace

ConvPanels conv_panels(onednn::Pass pass, const Convolution& p, Index depth) {
  ConvPanels panels =
      pass == onednn::Pass::forward ? forward_panels(p, depth) : input_gradient_panels(p, depth);
  place_weights(panels);
  return panels;
}

}  // namespace tandem::cpu
