// Where the direct convolution (core/cpu/kernels/conv_direct.cpp) finds things in its copy of an image.
//
// The copy holds every pixel's channels in panels of 16, with the padding written out, so that the inputs of
// neighbouring outputs lie a constant distance apart and there are no borders. With few channels it holds
// rows of pixels as they are. Distances count elements, which hold `depth` channels each: a float, or two
// bf16 side by side.
#pragma once

#include <array>
#include <vector>

#include "core/cpu/onednn.h"

namespace tandem::cpu {

inline constexpr Index kPanelChannels = 16;

// The output pixels first + i·step along both axes that share their taps: all of them in forward; in the
// input gradient one class for each remainder by the stride.
struct PixelClass {
  std::array<Index, 2> first{}, step{1, 1}, count{};
  std::vector<Index> taps;  // offsets in the copy, from the input position of pixel i = (0, 0)
  std::vector<std::array<Index, 2>> kernel;  // (kh, kw) of each tap
  Index weights = 0;                         // where its weights start in the packed filter, in elements
};

struct ConvPanels {
  struct Image {
    Index height, width, channels;
  };
  Image in{}, out{};
  Index depth = 1;
  bool whole_rows = false;             // rows of pixels as they are
  std::array<Index, 2> padding{};      // rows and columns of the copy before the image
  Index height = 0, width = 0;         // of the copy, in pixels
  Index pixel = 0;                     // elements of a pixel in one panel
  Index blocks = 0, block_size = 0;    // panels, and the elements of one
  Index pixel_step = 0, row_step = 0;  // between the inputs of neighbouring outputs
  Index run = 0;                       // elements under one tap that lie side by side
  std::vector<PixelClass> classes;
  Index weights = 0;  // elements of the packed filter

  Index size() const { return blocks * block_size; }
  // Elements of the packed filter for `channels` outputs of one class.
  Index weights_of(const PixelClass& c, Index channels) const {
    return static_cast<Index>(c.taps.size()) * run * blocks * channels;
  }
};

// forward: x is copied; input_gradient: dy is. Groups are 1. The input's channels are a multiple of 16, but
// for forward with depth 1.
ConvPanels conv_panels(onednn::Pass pass, const onednn::Convolution& problem, Index depth);

}  // namespace tandem::cpu
