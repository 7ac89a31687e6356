// Convolutions by short names, and those of the networks that ./run bench trains.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cpu/onednn.h"

namespace tandem::bench {

// "64>128@28k3s2b16": channels in and out at images of 28×28, and in any order
//   k kernel (3)   s stride (1)   d dilation (1)   p padding (dilation·(kernel-1)/2, rounded down: an odd one
//   keeps the extent) g groups (1)   b batch (16)
// where 28, k, s, d and p take one extent or two, "28x30", height first. Throws UserError for anything else,
// and where the kernel is larger than the image.
cpu::onednn::Convolution parse_convolution(std::string_view text);

// The shortest such name, with the batch in any case.
std::string short_name(const cpu::onednn::Convolution& problem);

struct Layer {
  cpu::onednn::Convolution problem;
  std::array<int, 3> passes;  // in a step of training, by onednn::Pass
};

struct Network {
  std::string_view name;  // as bench/worker.cpp or models/registry.h has it
  std::vector<Layer> layers;
};

// With the batches and images of bench/worker.cpp where it has the network. A transposed convolution is the
// one whose adjoint it is: its forward pass is that one's input gradient.
std::span<const Network> networks();

}  // namespace tandem::bench
