// Per-thread control and tracing of convolution algorithms for tests; unused, they cost one pointer check.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cpu/conv_choice.h"

namespace tandem::cpu {

// Forces `algorithm` for all passes during its lifetime; throws InternalError for a pass that the algorithm
// cannot compute (convolution_by). The innermost object applies.
class ForcedConvolution {
 public:
  explicit ForcedConvolution(ConvAlgorithm algorithm);
  ~ForcedConvolution();
  ForcedConvolution(const ForcedConvolution&) = delete;
  ForcedConvolution& operator=(const ForcedConvolution&) = delete;
  static std::optional<ConvAlgorithm> active();

 private:
  std::optional<ConvAlgorithm> outer_;
};

// Records the algorithms of the passes during its lifetime, in the innermost object.
class ConvolutionTrace {
 public:
  ConvolutionTrace();
  ~ConvolutionTrace();
  ConvolutionTrace(const ConvolutionTrace&) = delete;
  ConvolutionTrace& operator=(const ConvolutionTrace&) = delete;
  static ConvolutionTrace* active();

  void add(const std::string& algorithm) { algorithms_.push_back(algorithm); }
  // Entries since the last call, in order: "winograd", "library brgconv:avx512_core_bf16", …
  std::vector<std::string> take();

 private:
  ConvolutionTrace* outer_;
  std::vector<std::string> algorithms_;
};

}  // namespace tandem::cpu
