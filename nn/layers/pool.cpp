#include "nn/layers/pool.h"

#include "core/error.h"

namespace tandem::nn {

namespace {
std::string text_of(const char* name, const Pool2dOptions& options) {
  std::string text = fmt::format("{}({}×{}, stride {}×{}", name, options.kernel[0], options.kernel[1],
                                 options.stride[0], options.stride[1]);
  if (options.padding != std::array<Index, 2>{0, 0})
    text += fmt::format(", padding {}×{}", options.padding[0], options.padding[1]);
  return text + ")";
}
}  // namespace

std::string MaxPool2d::describe() const { return text_of("MaxPool2d", options_); }

std::string AvgPool2d::describe() const { return text_of("AvgPool2d", options_); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Index height, Index width) : height_(height), width_(width) {
  require(height > 0 && width > 0, "adaptive_avg_pool2d", "the result needs positive extents, got {}×{}",
          height, width);
}

std::string AdaptiveAvgPool2d::describe() const {
  return fmt::format("AdaptiveAvgPool2d({}×{})", height_, width_);
}

}  // namespace tandem::nn
