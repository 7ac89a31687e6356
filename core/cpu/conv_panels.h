// Layout of the direct convolution's copy of an image (core/cpu/kernels/conv_direct.cpp).
//
// The copy holds the channels of every pixel in panels of 16 with explicit padding, so that inputs of
// neighbouring outputs have a constant distance and there are no border cases. With few channels it holds
// unpadded rows of pixels. Distances are in elements of `depth` channels each: a float, or two adjacent bf16.
#pragma once

#include <array>
#include <vector>

#include "core/cpu/onednn.h"

namespace tandem::cpu {

inline constexpr Index kPanelChannels = 16;

// Output pixels first + i·step along both axes with the same taps: all of them in forward, one class per
// remainder modulo the stride in the input gradient.
struct PixelClass {
  std::array<Index, 2> first{}, step{1, 1}, count{};
  std::vector<Index> taps;  // offsets in the copy from the input position of pixel i = (0, 0)
  std::vector<std::array<Index, 2>> kernel;  // (kh, kw) of each tap
  Index weights = 0;                         // offset of its weights in the packed filter, in elements
};

struct ConvPanels {
  struct Image {
    Index height, width, channels;
  };
  Image in{}, out{};
  Index depth = 1;
  bool whole_rows = false;             // unpadded rows of pixels
  std::array<Index, 2> padding{};      // rows and columns of the copy before the image
  Index height = 0, width = 0;         // of the copy, in pixels
  Index pixel = 0;                     // elements per pixel of a panel
  Index blocks = 0, block_size = 0;    // number of panels, and elements per panel
  Index pixel_step = 0, row_step = 0;  // between the inputs of neighbouring outputs
  Index run = 0;                       // contiguous elements under one tap
  std::vector<PixelClass> classes;
  Index weights = 0;  // elements of the packed filter

  Index size() const { return blocks * block_size; }
  // Elements of the packed filter for `channels` outputs of one class.
  Index weights_of(const PixelClass& c, Index channels) const {
    return static_cast<Index>(c.taps.size()) * run * blocks * channels;
  }
};

// forward copies x, input_gradient dy. Groups are 1. Except in forward with depth 1, channels are multiples
// of 16.
ConvPanels conv_panels(onednn::Pass pass, const onednn::Convolution& problem, Index depth);

}  // namespace tandem::cpu
