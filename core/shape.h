// Extents of a dense row-major tensor; shape order is memory order.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tandem {

using Index = std::int64_t;

inline constexpr int kMaxRank = 8;

class Shape {
 public:
  constexpr Shape() = default;  // rank 0: a scalar
  // Throws UserError when there are more than kMaxRank extents, one is negative, or the product overflows.
  Shape(std::initializer_list<Index> extents);
  explicit Shape(std::span<const Index> extents);

  int rank() const { return rank_; }
  Index numel() const { return numel_; }

  Index operator[](int axis) const { return extents_[axis]; }
  // Accepts negative axes counted from the end; throws UserError when out of range.
  Index at(int axis) const;

  const Index* begin() const { return extents_.data(); }
  const Index* end() const { return extents_.data() + rank_; }
  std::span<const Index> extents() const { return {extents_.data(), static_cast<std::size_t>(rank_)}; }

  Shape with(int axis, Index extent) const;  // a copy with one extent replaced
  Shape without(int axis) const;             // a copy with one axis removed
  Shape inserted(int axis, Index extent) const;

  // Product of the extents in [first, last).
  Index product(int first, int last) const;

  // Row-major strides in elements.
  std::array<Index, kMaxRank> strides() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<Index, kMaxRank> extents_{};
  std::int8_t rank_ = 0;
  Index numel_ = 1;
};

// "[8,28,28,3]"
std::string to_string(const Shape& shape);

// Maps a possibly negative axis to [0, rank); throws UserError naming `where` otherwise.
int normalized_axis(int axis, int rank, const char* where);

// The NumPy broadcast of two shapes; throws UserError naming `where` when they do not match.
Shape broadcast(const Shape& a, const Shape& b, const char* where);

}  // namespace tandem
