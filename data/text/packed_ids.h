// Ids of words in the smallest integers that hold them, such as one byte per character.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

class PackedIds {
 public:
  PackedIds() = default;  // below 256
  // For ids below `size`, that of a vocabulary.
  explicit PackedIds(Index size);
  explicit PackedIds(std::span<const std::int32_t> ids);

  std::size_t size() const;
  bool empty() const { return size() == 0; }
  std::size_t bytes() const;
  std::int32_t operator[](std::size_t i) const;
  void append(std::span<const std::int32_t> ids);
  void reserve(std::size_t count);
  // The first `count`.
  PackedIds first(std::size_t count) const;
  std::vector<std::int32_t> unpacked() const;

 private:
  std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::int32_t>> ids_;
};

inline std::int32_t PackedIds::operator[](std::size_t i) const {
  if (const auto* const bytes = std::get_if<0>(&ids_)) return (*bytes)[i];
  if (const auto* const shorts = std::get_if<1>(&ids_)) return (*shorts)[i];
  return std::get<2>(ids_)[i];
}

}  // namespace tandem::datasets
