#include "nn/layers/merge.h"

#include <fmt/ranges.h>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::nn {

Tensor Add::forward(const Tensor& x) { return forward_all({x}); }

Tensor Add::forward_all(const TensorList& xs) {
  require(xs.size() >= 2, "add", "needs at least two inputs, got {}", xs.size());
  Tensor sum = add(xs[0], xs[1]);
  for (std::size_t i = 2; i < xs.size(); ++i) sum = add(sum, xs[i]);
  return relu_ ? relu(sum) : sum;
}

Tensor Concat::forward(const Tensor& x) { return forward_all({x}); }

Tensor Concat::forward_all(const TensorList& xs) {
  require(xs.size() >= 2, "concat", "needs at least two inputs, got {}", xs.size());
  return concat(xs, axis_);
}

std::string Concat::describe() const { return fmt::format("Concat(axis {})", axis_); }

TensorList Split::forward_outputs(const TensorList& xs) {
  require(xs.size() == 1, "split", "takes one input, got {}", xs.size());
  return split(xs[0], sizes_, axis_);
}

std::string Split::describe() const {
  return fmt::format("Split({}, axis {})", fmt::join(sizes_, " + "), axis_);
}

}  // namespace tandem::nn
