// Extents and strides of broadcast operands.
#pragma once

#include <algorithm>

#include "core/shape.h"

namespace tandem::cuda {

// Axes of a result after merging axes that are contiguous in all operands; axis 0 is the innermost.
template <int kOperands>
struct BroadcastSpace {
  int rank = 0;
  Index extent[kMaxRank] = {};
  Index stride[kOperands][kMaxRank] = {};  // in elements; 0 if broadcast
  Index count = 1;

  // Adds an axis outside the existing ones.
  void add(Index axis_extent, const Index (&strides)[kOperands]) {
    count *= axis_extent;
    if (axis_extent == 1) return;
    const int last = rank - 1;
    bool joins = rank > 0;
    for (int k = 0; k < kOperands && joins; ++k) joins = strides[k] == stride[k][last] * extent[last];
    if (joins) {
      extent[last] *= axis_extent;
      return;
    }
    extent[rank] = axis_extent;
    for (int k = 0; k < kOperands; ++k) stride[k][rank] = strides[k];
    ++rank;
  }
};

// Offsets in elements of a part's first element.
template <int kOperands>
struct BroadcastStart {
  Index operand[kOperands] = {}, result = 0;
};

// Calls visit(space, start) for parts of at most `most` elements, in the order of the result.
template <int kOperands, class Visitor>
void visit_parts(const BroadcastSpace<kOperands>& space, Index most, Visitor&& visit,
                 const BroadcastStart<kOperands>& start = {}) {
  if (space.count <= most) return visit(space, start);
  const int axis = space.rank - 1;
  const Index inner = space.count / space.extent[axis], step = std::max<Index>(most / inner, 1);
  for (Index first = 0; first < space.extent[axis]; first += step) {
    BroadcastSpace<kOperands> part = space;
    part.extent[axis] = std::min(step, space.extent[axis] - first);
    part.count = inner * part.extent[axis];
    if (part.extent[axis] == 1) --part.rank;
    BroadcastStart<kOperands> at = start;
    for (int k = 0; k < kOperands; ++k) at.operand[k] += first * space.stride[k][axis];
    at.result += first * inner;
    visit_parts(part, most, visit, at);
  }
}

}  // namespace tandem::cuda
