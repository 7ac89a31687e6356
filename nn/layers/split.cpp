#include "nn/layers/split.h"

#include <fmt/ranges.h>

#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::nn {

TensorList Split::forward_outputs(const TensorList& xs) {
  require(xs.size() == 1, "split", "takes one input, got {}", xs.size());
  return split(xs[0], sizes_, axis_);
}

std::string Split::describe() const {
  return fmt::format("Split({}, axis {})", fmt::join(sizes_, " + "), axis_);
}

}  // namespace tandem::nn
