#include "core/dtype.h"

#include <algorithm>

#include "core/error.h"

namespace tandem {

namespace {
constexpr std::string_view kNames[kDTypeCount] = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"};
}

std::string_view name_of(DType dtype) { return kNames[static_cast<int>(dtype)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_16bit(a) && is_16bit(b)) return DType::f32;
  return std::min(a, b);  // the enumerators are ordered from widest to narrowest
}

void fail_not_floating(DType dtype) {
  throw InternalError("dtype", fmt::format("a floating type is needed here, got {}", name_of(dtype)));
}

}  // namespace tandem
