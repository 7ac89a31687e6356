#include "nn/layers/cast.h"

#include "autograd/ops/elementwise.h"
#include "core/error.h"

namespace tandem::nn {

Cast::Cast(DType dtype) : dtype_(dtype) {
  require(is_floating(dtype), "cast", "casts to floating types, not to {}", name_of(dtype));
}

Tensor Cast::forward(const Tensor& x) {
  require(x.defined() && is_floating(x.dtype()), "cast", "expects a floating tensor, got {}", to_string(x));
  return cast(x, dtype_);
}

std::string Cast::describe() const { return fmt::format("Cast({})", name_of(dtype_)); }

}  // namespace tandem::nn
