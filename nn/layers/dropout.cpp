#include "nn/layers/dropout.h"

#include "autograd/ops/random.h"
#include "core/error.h"

namespace tandem::nn {

Dropout::Dropout(double p) : p_(p) {
  require(p >= 0.0 && p < 1.0, "dropout", "the probability must lie in [0, 1), got {}", p);
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, training()); }

std::string Dropout::describe() const { return fmt::format("Dropout({})", p_); }

}  // namespace tandem::nn
