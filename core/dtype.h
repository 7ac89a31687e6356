// Element types of tensors.
//
// 16-bit types are storage only: arithmetic happens in `ComputeType` (float for 16- and 32-bit storage,
// double for f64) and is rounded once, to nearest even, on store. core/convert.h converts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace tandem {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, u8, boolean };

inline constexpr int kDTypeCount = 8;

// IEEE binary16 and the upper half of IEEE binary32, as stored.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t sizes[kDTypeCount] = {8, 4, 2, 2, 8, 4, 1, 1};
  return sizes[static_cast<int>(dtype)];
}

// "f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool".
std::string_view name_of(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

constexpr bool is_floating(DType dtype) { return dtype <= DType::bf16; }
constexpr bool is_16bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
constexpr bool is_integral(DType dtype) { return dtype >= DType::i64; }

// Accumulation type for sums over `dtype`: f64 for f64, f32 for everything else.
constexpr DType wide_of(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// The narrowest dtype that holds both operands: f64 > f32 > {f16, bf16} > integers; f16 with bf16 gives f32;
// a floating type with an integral one gives the floating type; i64 > i32 > u8 > bool.
DType promote(DType a, DType b);

template <class T>
inline constexpr bool is_storage_type_v =
    std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, Half> ||
    std::is_same_v<T, BFloat16> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, bool>;

template <class T>
constexpr DType dtype_of() {
  static_assert(is_storage_type_v<T>, "not an element type of a tensor");
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, Half>) return DType::f16;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  return DType::boolean;
}

// Type of arithmetic on stored T.
template <class T>
using ComputeType = std::conditional_t<
    std::is_same_v<T, double>, double,
    std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>,
                       float, std::int64_t>>;

template <class T>
struct TypeTag {
  using type = T;
};

// Calls `visit(TypeTag<T>{})` with the storage type of `dtype`.
template <class Visitor>
constexpr decltype(auto) visit_dtype(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::f64:
      return visit(TypeTag<double>{});
    case DType::f32:
      return visit(TypeTag<float>{});
    case DType::f16:
      return visit(TypeTag<Half>{});
    case DType::bf16:
      return visit(TypeTag<BFloat16>{});
    case DType::i64:
      return visit(TypeTag<std::int64_t>{});
    case DType::i32:
      return visit(TypeTag<std::int32_t>{});
    case DType::u8:
      return visit(TypeTag<std::uint8_t>{});
    case DType::boolean:
      break;
  }
  return visit(TypeTag<bool>{});
}

// Floating types only; another dtype is an InternalError of the caller.
[[noreturn]] void fail_not_floating(DType dtype);

template <class Visitor>
decltype(auto) visit_floating(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::f64:
      return visit(TypeTag<double>{});
    case DType::f32:
      return visit(TypeTag<float>{});
    case DType::f16:
      return visit(TypeTag<Half>{});
    case DType::bf16:
      return visit(TypeTag<BFloat16>{});
    default:
      fail_not_floating(dtype);
  }
}

// Without effect for f64.
template <class Visitor>
void visit_below_f64(DType dtype, Visitor&& visit) {
  visit_floating(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (!std::is_same_v<T, double>) visit(tag);
  });
}

// The type of arithmetic on floating elements: double for f64, float for all others.
template <class Visitor>
void visit_compute(DType dtype, Visitor&& visit) {
  dtype == DType::f64 ? visit(TypeTag<double>{}) : visit(TypeTag<float>{});
}

// An unsigned integer of the element's size, for copies.
template <class Visitor>
constexpr decltype(auto) visit_word(DType dtype, Visitor&& visit) {
  switch (size_of(dtype)) {
    case 1:
      return visit(TypeTag<std::uint8_t>{});
    case 2:
      return visit(TypeTag<std::uint16_t>{});
    case 4:
      return visit(TypeTag<std::uint32_t>{});
    default:
      return visit(TypeTag<std::uint64_t>{});
  }
}

}  // namespace tandem
