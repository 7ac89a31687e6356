#include "optim/step/update_parts.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"

namespace tandem::optim {

namespace {

// Block in which the gradient check sums a parameter (core/cpu/kernels/update.cpp). A part that ends with a
// block leaves the sum over blocks unchanged.
constexpr Index kBlock = 4096;
// Every parameter starts on a multiple of it.
constexpr Index kUnit = 64 / sizeof(float);

// The permitted boundary nearest to `wanted`.
Index nearest_border(const FlatBuffers& buffers, Index wanted, bool whole) {
  const auto& slots = buffers.slots();
  const auto behind =
      std::ranges::upper_bound(slots, wanted, {}, [](const FlatBuffers::Slot& slot) { return slot.first; });
  const FlatBuffers::Slot& slot = *std::prev(behind);
  const Index end = behind == slots.end() ? buffers.length() : behind->first;
  Index below = slot.first, above = end;
  if (!whole) {
    below += std::min(wanted - slot.first, slot.count - 1) / kBlock * kBlock;
    if (below + kBlock < slot.first + slot.count) above = below + kBlock;
  }
  return wanted - below <= above - wanted ? below : above;
}

}  // namespace

UpdateParts::UpdateParts(const FlatBuffers& buffers, int parts, int own, bool whole) : own_(own) {
  require(parts >= 1 && own >= 0 && own < parts, "step", "part {} of an update in {} parts", own, parts);
  const Index length = buffers.length();
  const auto border = [&](int part) {
    if (part == parts) return length;
    const Range even = part_of(static_cast<std::size_t>(length), static_cast<std::size_t>(parts),
                               static_cast<std::size_t>(part));
    return nearest_border(buffers, static_cast<Index>(even.first), whole);
  };
  for (int part = 0; part < parts; ++part)
    counts_.push_back(static_cast<std::size_t>(border(part + 1) - border(part)));
  first_ = border(own);
  last_ = border(own + 1);
  // The buffers hold at least one unit: a parameter.
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
