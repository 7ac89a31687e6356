// Short names of convolutions, and the convolutions of the networks that ./run bench trains.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cpu/onednn.h"

namespace tandem::bench {

// Parses "64>128@28k3s2b16": input and output channels at images of 28×28, then in any order, with defaults:
//   k kernel (3)   s stride (1)   d dilation (1)   g groups (1)   b batch (16)
//   p padding (dilation·(kernel-1)/2, rounded down: an odd kernel keeps the extent)
// The extents of the image, k, s, d and p are one number or height and width, "28x30". Throws UserError for
// invalid names, and for a kernel larger than the image.
cpu::onednn::Convolution parse_convolution(std::string_view text);

// The shortest name, always with the batch.
std::string short_name(const cpu::onednn::Convolution& problem);

struct Layer {
  cpu::onednn::Convolution problem;
  std::array<int, 3> passes;  // per training step, by onednn::Pass
};

struct Network {
  std::string_view name;  // as in bench/worker.cpp or models/registry.h
  std::vector<Layer> layers;
};

// With the batches and images of bench/worker.cpp, for networks in it. A transposed convolution is listed as
// its adjoint, whose input gradient is its forward pass.
std::span<const Network> networks();

}  // namespace tandem::bench
