// Buffers of a collective: contiguous elements of one dtype in host memory.
#pragma once

#include <cstddef>
#include <ranges>
#include <type_traits>

#include "core/dtype.h"

namespace tandem::parallel {

// A type that can be sent; std::byte counts as u8.
template <class T>
inline constexpr bool is_sent_v = is_storage_type_v<T> || std::is_same_v<T, std::byte>;

template <class T>
constexpr DType dtype_of_sent() {
  if constexpr (std::is_same_v<T, std::byte>) {
    return DType::u8;
  } else {
    return dtype_of<T>();
  }
}

template <class R>
concept SentRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    is_sent_v<std::remove_cv_t<std::ranges::range_value_t<R>>>;

// A writable buffer, not owned.
struct Elements {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::u8;

  Elements() = default;
  Elements(void* first, std::size_t length, DType type) : data(first), count(length), dtype(type) {}
  // A vector, array or span of them.
  template <class R>
  requires SentRange<R> &&(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
      Elements(R&& range)  // NOLINT(google-explicit-constructor)
      : Elements(std::ranges::data(range), std::ranges::size(range),
                 dtype_of_sent<std::ranges::range_value_t<R>>()) {}

  std::size_t bytes() const { return count * size_of(dtype); }
};

// A read-only buffer, not owned.
struct ConstElements {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::u8;

  ConstElements() = default;
  ConstElements(const void* first, std::size_t length, DType type)
      : data(first), count(length), dtype(type) {}
  ConstElements(const Elements& elements)  // NOLINT(google-explicit-constructor)
      : ConstElements(elements.data, elements.count, elements.dtype) {}
  template <class R>
  requires SentRange<R> ConstElements(R&& range)  // NOLINT(google-explicit-constructor)
      : ConstElements(std::ranges::data(range), std::ranges::size(range),
                      dtype_of_sent<std::remove_cv_t<std::ranges::range_value_t<R>>>()) {}

  std::size_t bytes() const { return count * size_of(dtype); }
};

}  // namespace tandem::parallel
