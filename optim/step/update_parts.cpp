#include "optim/step/update_parts.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::optim {

namespace {

// Every parameter begins at a multiple of it, so that no part is cut within a vector.
constexpr Index kUnit = 64 / sizeof(float);

// The border that is nearest to `wanted`.
Index nearest_parameter(const FlatBuffers& buffers, Index wanted) {
  Index nearest = buffers.length();
  for (const FlatBuffers::Slot& slot : buffers.slots())
    if (std::abs(slot.first - wanted) < std::abs(nearest - wanted)) nearest = slot.first;
  return nearest;
}

}  // namespace

UpdateParts::UpdateParts(const FlatBuffers& buffers, int parts, int own, bool whole) {
  require(parts >= 1 && own >= 0 && own < parts, "step", "part {} of an update in {} parts", own, parts);
  const Index length = buffers.length();
  const auto border = [&](int part) {
    if (part == 0 || part == parts) return part == 0 ? Index{0} : length;
    const Index units = length / kUnit;
    const auto first =
        static_cast<Index>(part_of(static_cast<std::size_t>(units), static_cast<std::size_t>(parts),
                                   static_cast<std::size_t>(part))
                               .first) *
        kUnit;
    return whole ? nearest_parameter(buffers, first) : first;
  };
  for (int part = 0; part < parts; ++part)
    counts_.push_back(static_cast<std::size_t>(border(part + 1) - border(part)));
  first_ = border(own);
  last_ = border(own + 1);
  // The buffers have a unit at least: a parameter.
  window_count_ = std::max(last_ - first_, kUnit);
  window_first_ = std::min(first_, length - window_count_);
}

UpdateRange UpdateParts::own_of(const UpdateRange& range) const {
  UpdateRange own = range;
  own.first = std::clamp(range.first, first_, last_);
  own.count = std::clamp(range.first + range.count, own.first, std::max(own.first, last_)) - own.first;
  return own;
}

UpdateRange UpdateParts::in_window(const UpdateRange& range) const {
  UpdateRange own = own_of(range);
  own.first -= window_first_;
  return own;
}

}  // namespace tandem::optim
