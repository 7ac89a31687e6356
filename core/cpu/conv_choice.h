// Choice of the algorithm for a pass of a convolution, by shape, dtypes, CPU level and number of threads. It
// never measures time, so results are reproducible. Measurements: bench/CONVOLUTIONS.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/cpu/level.h"
#include "core/cpu/onednn.h"

namespace tandem::cpu {

enum class ConvAlgorithm : std::uint8_t {
  generic,  // im2col and a product: f64, and shapes that oneDNN's descriptors cannot express
  library,  // oneDNN
  product,  // one matrix product: over pixels for 1×1 kernels, over images for kernels as large as the image
  direct,   // own kernels over panels of 16 channels
  winograd,   // own kernels of F(2×2, 3×3)
  depthwise,  // own kernels with one filter per channel
  amx,        // own kernels in AMX tiles
};

std::string_view name_of(ConvAlgorithm algorithm);
bool is_own(ConvAlgorithm algorithm);  // direct, winograd, depthwise or amx
// Whether forward can compute the moments of its output (core/cpu/kernels/moments.h): direct and winograd.
bool takes_moments(ConvAlgorithm algorithm);

// Dtypes of both operands, in the order of the pass, and of the output. An f64 bias makes `a` f64.
struct ConvDtypes {
  DType a, b, out;
};

// Properties of the machine that the rules use.
struct ConvMachine {
  Level level;
  bool library_bf16;  // oneDNN multiplies bf16 (onednn::multiplies_bf16)
  int threads;
};

ConvMachine conv_machine();  // of this process, at present

struct ConvChoice {
  ConvAlgorithm algorithm;
  DType operands;  // both operands are converted to it
  DType result;    // of the algorithm; converted to the output's dtype
};

// The dtypes in `problem` are ignored. `accumulate`: as in the passes of the backend.
ConvChoice choose_convolution(onednn::Pass pass, const onednn::Convolution& problem, const ConvDtypes& dtypes,
                              bool accumulate, const ConvMachine& machine);

// The choice for a given algorithm, regardless of speed; absent if it cannot compute the pass.
std::optional<ConvChoice> convolution_by(ConvAlgorithm algorithm, onednn::Pass pass,
                                         const onednn::Convolution& problem, const ConvDtypes& dtypes,
                                         bool accumulate, const ConvMachine& machine);

// A 1×1 kernel without padding or groups: a matrix product over the pixels hit by the stride.
bool is_pointwise(const onednn::Convolution& problem);
// A kernel as large as the image, without padding or groups: a linear layer over whole images.
bool covers_image(const onednn::Convolution& problem);
bool is_dense(const onednn::Convolution& problem);      // stride 1
bool is_depthwise(const onednn::Convolution& problem);  // one filter per channel, several channels

}  // namespace tandem::cpu
