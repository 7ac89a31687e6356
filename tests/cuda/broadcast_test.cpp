// Broadcast spaces in parts (core/cuda/broadcast.h), which no test tensor is large enough for.
#include "core/cuda/broadcast.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace {

using tandem::Index;
using Space = tandem::cuda::BroadcastSpace<2>;
using Start = tandem::cuda::BroadcastStart<2>;

// The offsets of both operands at every element of the result, in its order.
void list(const Space& space, const Start& start, std::vector<Index> (&offsets)[2]) {
  for (Index i = 0; i < space.count; ++i) {
    Index rest = i, at[2] = {start.operand[0], start.operand[1]};
    for (int axis = 0; axis < space.rank; ++axis) {
      for (int k = 0; k < 2; ++k) at[k] += rest % space.extent[axis] * space.stride[k][axis];
      rest /= space.extent[axis];
    }
    for (int k = 0; k < 2; ++k) offsets[k].push_back(at[k]);
  }
}

}  // namespace

TEST_CASE("axes that all operands run through alike are one", "[broadcast]") {
  Space space;
  space.add(4, {1, 0});
  space.add(1, {0, 0});
  space.add(3, {4, 0});
  space.add(2, {12, 1});
  CHECK(space.rank == 2);
  CHECK(space.count == 24);
  CHECK(space.extent[0] == 12);
  CHECK(space.stride[0][1] == 12);
  CHECK(space.stride[1][1] == 1);
}

TEST_CASE("parts of a space are the space", "[broadcast]") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Space space;
    Index steps[2] = {1, 1};
    const int axes = static_cast<int>(random() % 5);
    for (int axis = 0; axis < axes; ++axis) {
      const Index extent = static_cast<Index>(random() % 5 + 1);
      const bool broadcast[2] = {random() % 2 == 0, random() % 2 == 0};
      space.add(extent, {broadcast[0] ? 0 : steps[0], broadcast[1] ? 0 : steps[1]});
      for (int k = 0; k < 2; ++k) steps[k] *= broadcast[k] ? 1 : extent;
    }
    std::vector<Index> expected[2], found[2];
    list(space, {}, expected);
    const Index most = static_cast<Index>(random() % 12 + 1);
    Index next = 0;
    tandem::cuda::visit_parts(space, most, [&](const Space& part, const Start& start) {
      CHECK(part.count <= most);
      CHECK(start.result == next);
      next += part.count;
      list(part, start, found);
    });
    CHECK(next == space.count);
    CHECK(found[0] == expected[0]);
    CHECK(found[1] == expected[1]);
  }
}
