// Which algorithm computes a pass of a convolution: a rule over shape, dtypes, level of the CPU and number of
// threads, and never a timing, so that results do not depend on the moment. The figures behind it stand
// beside the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/cpu/level.h"
#include "core/cpu/onednn.h"

namespace tandem::cpu {

enum class ConvAlgorithm : std::uint8_t {
  generic,  // im2col and a product: f64, and what oneDNN's descriptors cannot say
  library,  // oneDNN
  product,  // one matrix product: over the pixels of 1×1 kernels, over the images of kernels that cover them
  direct,   // own kernels over panels of 16 channels
  winograd,   // own kernels of F(2×2, 3×3)
  depthwise,  // own kernels for one filter a channel
};

std::string_view name_of(ConvAlgorithm algorithm);
bool is_own(ConvAlgorithm algorithm);  // direct, winograd or depthwise

// Of both operands, in the order in which the pass takes them, and of what it writes. A bias counts as `a`'s
// where it is f64.
struct ConvDtypes {
  DType a, b, out;
};

// What the rule looks at besides the convolution.
struct ConvMachine {
  Level level;
  bool library_bf16;  // oneDNN multiplies bf16 (onednn::multiplies_bf16)
  int threads;
};

ConvMachine conv_machine();  // this process's, now

struct ConvChoice {
  ConvAlgorithm algorithm;
  DType operands;  // what both are converted to
  DType result;    // what the algorithm writes, to be converted to the output's
};

// `problem` says geometry and bias; its dtypes are not looked at. `accumulate` as the backend's passes have
// it.
ConvChoice choose_convolution(onednn::Pass pass, const onednn::Convolution& problem, const ConvDtypes& dtypes,
                              bool accumulate, const ConvMachine& machine);

// The same for a given algorithm, whatever its speed; absent where it cannot compute the pass.
std::optional<ConvChoice> convolution_by(ConvAlgorithm algorithm, onednn::Pass pass,
                                         const onednn::Convolution& problem, const ConvDtypes& dtypes,
                                         bool accumulate, const ConvMachine& machine);

// A 1×1 kernel without padding or groups: a matrix product over the pixels that the stride hits.
bool is_pointwise(const onednn::Convolution& problem);
// A larger kernel that has the size of the image, without padding or groups: a linear layer of whole images.
bool covers_image(const onednn::Convolution& problem);
bool is_dense(const onednn::Convolution& problem);      // stride 1
bool is_depthwise(const onednn::Convolution& problem);  // each of several channels has one filter

}  // namespace tandem::cpu
