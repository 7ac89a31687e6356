// Merged axes of reductions and strided copies: fewer and longer loops.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "core/kernels/shape.h"

namespace tandem::kernels {

struct AxisSet {
  int rank = 0;
  Index extent[kMaxRank] = {}, stride[kMaxRank] = {};
  Index count = 1;
};

// Axes of a reduction. Adjacent axes of one kind are merged. `inner` contiguous elements are either reduced
// or separate outputs.
struct ReductionAxes {
  AxisSet kept, reduced;
  Index inner = 1;
  bool inner_reduced = true;

  ReductionAxes(const Shape& shape, std::uint32_t axes) {
    AxisSet* last = nullptr;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      AxisSet& set = (axes >> axis & 1u) != 0 ? reduced : kept;
      if (&set != last) set.extent[set.rank++] = 1;
      set.extent[set.rank - 1] *= shape[axis];
      set.stride[set.rank - 1] = shape.product(axis + 1, shape.rank());
      last = &set;
    }
    if (last) {
      inner = last->extent[--last->rank];
      inner_reduced = last == &reduced;
    }
    for (AxisSet* set : {&kept, &reduced}) {
      for (int i = 0; i < set->rank; ++i) set->count *= set->extent[i];
    }
  }

  Index outputs() const { return kept.count * (inner_reduced ? 1 : inner); }
  Index reduced_count() const { return reduced.count * (inner_reduced ? inner : 1); }
};

struct CopyAxis {
  Index extent = 1, from = 0, to = 0;  // strides in elements
};

// Axes of a strided copy, the outermost of the destination first. Axes that are contiguous on both sides are
// merged.
struct CopyAxes {
  std::array<CopyAxis, kMaxRank> axes{};
  int rank = 0;
  Index from = 0, to = 0;  // offsets of the first element

  CopyAxes() = default;
  CopyAxes(const StridedView& source, const StridedView& target, const Shape& extents)
      : from(source.offset), to(target.offset) {
    int count = 0;
    for (int i = 0; i < extents.rank(); ++i) {
      if (extents[i] != 1) axes[count++] = {extents[i], source.strides[i], target.strides[i]};
    }
    std::stable_sort(axes.begin(), axes.begin() + count,
                     [](const CopyAxis& a, const CopyAxis& b) { return std::abs(a.to) > std::abs(b.to); });
    for (int i = 0; i < count; ++i) {
      const CopyAxis inner = axes[i];
      CopyAxis* outer = rank > 0 ? &axes[rank - 1] : nullptr;
      if (outer && outer->from == inner.from * inner.extent && outer->to == inner.to * inner.extent) {
        *outer = {outer->extent * inner.extent, inner.from, inner.to};
      } else {
        axes[rank++] = inner;
      }
    }
  }
};

}  // namespace tandem::kernels
