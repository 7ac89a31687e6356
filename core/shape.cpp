#include "core/shape.h"

#include <algorithm>

#include "core/error.h"

namespace tandem {

Shape::Shape(std::initializer_list<Index> extents)
    : Shape(std::span<const Index>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const Index> extents) {
  require(extents.size() <= kMaxRank, "shape", "at most {} axes are supported, got {}", kMaxRank,
          extents.size());
  rank_ = static_cast<std::int8_t>(extents.size());
  for (int i = 0; i < rank_; ++i) {
    require(extents[i] >= 0, "shape", "extent {} of axis {} is negative", extents[i], i);
    extents_[i] = extents[i];
    // Extents of 0 count as 1, so that strides fit too, independent of the order of extents.
    require(!__builtin_mul_overflow(numel_, std::max<Index>(extents[i], 1), &numel_), "shape",
            "the number of elements does not fit 64 bits (axis {}, extent {})", i, extents[i]);
  }
  if (std::ranges::find(extents, 0) != extents.end()) numel_ = 0;
}

Index Shape::at(int axis) const { return extents_[normalized_axis(axis, rank_, "shape")]; }

Shape Shape::with(int axis, Index extent) const {
  auto extents = extents_;
  extents[axis] = extent;
  return Shape(std::span<const Index>(extents.data(), rank_));
}

Shape Shape::without(int axis) const {
  auto extents = extents_;
  std::copy(extents.begin() + axis + 1, extents.begin() + rank_, extents.begin() + axis);
  return Shape(std::span<const Index>(extents.data(), rank_ - 1));
}

Shape Shape::inserted(int axis, Index extent) const {
  require(rank_ < kMaxRank, "shape", "{} already has {} axes", to_string(*this), kMaxRank);
  auto extents = extents_;
  std::copy_backward(extents.begin() + axis, extents.begin() + rank_, extents.begin() + rank_ + 1);
  extents[axis] = extent;
  return Shape(std::span<const Index>(extents.data(), rank_ + 1));
}

Index Shape::product(int first, int last) const {
  Index result = 1;
  for (int i = first; i < last; ++i) result *= extents_[i];
  return result;
}

std::array<Index, kMaxRank> Shape::strides() const {
  std::array<Index, kMaxRank> strides{};
  Index stride = 1;
  for (int i = rank_ - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= extents_[i];
  }
  return strides;
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.extents(), b.extents()); }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + ']';
}

int normalized_axis(int axis, int rank, const char* where) {
  require(axis >= -rank && axis < rank, where, "axis {} is out of range for a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Shape broadcast(const Shape& a, const Shape& b, const char* where) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  std::array<Index, kMaxRank> extents{};
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const Index ea = ia < 0 ? 1 : a[ia], eb = ib < 0 ? 1 : b[ib];
    require(ea == eb || ea == 1 || eb == 1, where, "shapes {} and {} do not broadcast: axis {} has {} and {}",
            to_string(a), to_string(b), i - rank, ea, eb);
    extents[i] = ea == 1 ? eb : ea;
  }
  return Shape(std::span<const Index>(extents.data(), rank));
}

}  // namespace tandem
