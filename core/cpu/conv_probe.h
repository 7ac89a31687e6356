// Per-thread control and tracing of convolution algorithms for tests; unused, they cost one pointer check.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cpu/conv_choice.h"
#include "core/scoped_value.h"

namespace tandem::cpu {

// Forces `algorithm` for all passes during its lifetime; throws InternalError for a pass that the algorithm
// cannot compute (convolution_by). The innermost object applies.
class ForcedConvolution : ScopedValue<std::optional<ConvAlgorithm>> {
 public:
  explicit ForcedConvolution(ConvAlgorithm algorithm);
  static std::optional<ConvAlgorithm> active();
};

// Records the algorithms of the passes during its lifetime, in the innermost object.
class ConvolutionTrace : ScopedValue<ConvolutionTrace*> {
 public:
  ConvolutionTrace();
  static ConvolutionTrace* active();

  void add(const std::string& algorithm) { algorithms_.push_back(algorithm); }
  // Entries since the last call, in order: "winograd", "library brgconv:avx512_core_bf16", …
  std::vector<std::string> take();

 private:
  std::vector<std::string> algorithms_;
};

}  // namespace tandem::cpu
