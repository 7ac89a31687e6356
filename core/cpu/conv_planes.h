// Convolution as a sum of products over flattened images, one for each tap of the kernel
// (core/cpu/kernels/conv_amx.cpp).
//
// An image is copied into planes with zeros as padding. In a plane, consecutive positions along a row are
// read by consecutive outputs; a forward pass with a stride has a plane for each remainder of the padded
// coordinates. Rows of all planes are `pitch` positions apart, and so are rows of outputs. Output position m
// of a class therefore reads position m + offset of a plane for each tap, across the ends of rows and images:
// there are no border cases. Outputs between rows and images are computed from padding and discarded. The
// zeros after a row or an image are also those before the next.
#pragma once

#include <array>
#include <vector>

#include "core/cpu/onednn.h"

namespace tandem::cpu {

struct ConvPlanes {
  // Pixel first + i·step of the image is at row at[0] + i[0] and column at[1] + i[1], for i < count.
  struct Plane {
    std::array<Index, 2> first{}, step{1, 1}, count{}, at{};
  };
  struct Tap {
    Index plane, offset;          // in positions
    std::array<Index, 2> kernel;  // (kh, kw)
  };
  // Output pixels first + i·step for i < count.
  struct Class {
    std::array<Index, 2> first{}, step{1, 1}, count{};
    std::vector<Tap> taps;  // by plane and offset
  };
  std::vector<Plane> planes;
  std::vector<Class> classes;  // one, or in the input gradient one for each remainder modulo the stride
  Index rows = 0, pitch = 0;   // of an image in a plane
  Index rows_after = 0;        // rows that the last row of outputs reads beyond its own
  Index largest_offset = 0;

  Index positions() const { return rows * pitch; }
};

// forward and filter_gradient copy x, input_gradient dy. Groups are 1. In filter_gradient, zeros follow each
// row of pixels and of outputs.
ConvPlanes conv_planes(onednn::Pass pass, const onednn::Convolution& problem);

}  // namespace tandem::cpu
