// For measurements and tests: which algorithm computes the passes of convolutions on the CPU, and which did.
// Both are of the thread that creates them, and cost a step that has neither a look at a pointer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cpu/conv_choice.h"

namespace tandem::cpu {

// Within its life passes are computed by `algorithm`; one that it cannot compute (convolution_by) throws
// InternalError. The innermost holds.
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

// Notes what computed the passes within its life. The innermost is told.
class ConvolutionTrace {
 public:
  ConvolutionTrace();
  ~ConvolutionTrace();
  ConvolutionTrace(const ConvolutionTrace&) = delete;
  ConvolutionTrace& operator=(const ConvolutionTrace&) = delete;
  static ConvolutionTrace* active();

  void add(const std::string& algorithm) { algorithms_.push_back(algorithm); }
  // Of the passes since the last call, in order: "winograd", "library brgconv:avx512_core_bf16", …
  std::vector<std::string> take();

 private:
  ConvolutionTrace* outer_;
  std::vector<std::string> algorithms_;
};

}  // namespace tandem::cpu
