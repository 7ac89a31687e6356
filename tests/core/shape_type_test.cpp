// Shape: extents, limits, axes and broadcasting.
#include <catch2/catch.hpp>

#include "core/shape.h"
#include "tests/support/errors.h"

using namespace tandem;

namespace {
constexpr Index kBig = Index{1} << 40;
}

TEST_CASE("a shape knows its extents", "[shape]") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape.numel() == 24);
  CHECK(shape[1] == 3);
  CHECK(shape.at(-1) == 4);
  CHECK(shape.at(-3) == 2);
  CHECK(shape.product(1, 3) == 12);
  CHECK(shape.product(1, 1) == 1);
  CHECK(shape.strides()[0] == 12);
  CHECK(shape.strides()[1] == 4);
  CHECK(shape.strides()[2] == 1);
  CHECK(to_string(shape) == "[2,3,4]");
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{}.rank() == 0);
  CHECK(to_string(Shape{}) == "[]");
  CHECK(Shape{3, 0, 2}.numel() == 0);
  CHECK(std::vector<Index>(shape.begin(), shape.end()) == std::vector<Index>{2, 3, 4});
}

TEST_CASE("equality looks at extents and rank only", "[shape]") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2} == Shape{2, 1});
  CHECK_FALSE(Shape{} == Shape{1});
  CHECK(Shape{2, 3, 4}.without(2) == Shape{2, 3});  // what lies behind the rank does not matter
}

TEST_CASE("extents are checked", "[shape]") {
  CHECK_FAILS(UserError, (Shape{2, -1}), "[shape] extent -1 of axis 1 is negative");
  CHECK_FAILS(UserError, (Shape{kBig, kBig}), "does not fit 64 bits");
  CHECK_FAILS(UserError, (Shape{kBig, kBig, 0}), "does not fit 64 bits");
  CHECK_FAILS(UserError, (Shape{0, kBig, kBig}), "does not fit 64 bits");
  CHECK_FAILS(UserError, (Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), "at most 8 axes are supported, got 9");
  CHECK((Shape{1, 1, 1, 1, 1, 1, 1, 1}).rank() == 8);
  CHECK((Shape{0, kBig}).numel() == 0);
  const std::vector<Index> extents{5, 6};
  CHECK(Shape(std::span<const Index>(extents)) == Shape{5, 6});
}

TEST_CASE("shapes with one axis changed", "[shape]") {
  const Shape shape{2, 3, 4};
  CHECK(shape.with(1, 7) == Shape{2, 7, 4});
  CHECK(shape.without(0) == Shape{3, 4});
  CHECK(shape.without(2) == Shape{2, 3});
  CHECK(shape.inserted(0, 9) == Shape{9, 2, 3, 4});
  CHECK(shape.inserted(3, 9) == Shape{2, 3, 4, 9});
  CHECK(shape.with(1, 7).numel() == 56);
  CHECK_FAILS(UserError, shape.with(0, -2), "negative");
  CHECK_FAILS(UserError, (Shape{1, 1, 1, 1, 1, 1, 1, 1}.inserted(0, 1)), "already has 8 axes");
  CHECK(Shape{5}.without(0) == Shape{});
}

TEST_CASE("axes count from either end", "[shape]") {
  CHECK(normalized_axis(-1, 4, "op") == 3);
  CHECK(normalized_axis(0, 4, "op") == 0);
  CHECK(normalized_axis(3, 4, "op") == 3);
  CHECK_FAILS(UserError, normalized_axis(4, 4, "sum"), "[sum] axis 4 is out of range for a tensor of rank 4");
  CHECK_FAILS(UserError, normalized_axis(-5, 4, "sum"), "[sum] axis -5");
  CHECK_FAILS(UserError, normalized_axis(0, 0, "sum"), "rank 0");
  CHECK_FAILS(UserError, (Shape{2, 3}.at(2)), "axis 2");
}

TEST_CASE("broadcasting follows NumPy", "[shape]") {
  CHECK(broadcast({2, 3}, {2, 3}, "add") == Shape{2, 3});
  CHECK(broadcast({2, 3}, {3}, "add") == Shape{2, 3});
  CHECK(broadcast({3}, {2, 3}, "add") == Shape{2, 3});
  CHECK(broadcast({2, 1, 4}, {3, 1}, "add") == Shape{2, 3, 4});
  CHECK(broadcast({}, {5, 0}, "add") == Shape{5, 0});
  CHECK(broadcast({1, 3}, {0, 1}, "add") == Shape{0, 3});
  CHECK_FAILS(UserError, broadcast({2, 3}, {2, 4}, "add"),
              "[add] shapes [2,3] and [2,4] do not broadcast: axis -1 has 3 and 4");
  CHECK_FAILS(UserError, broadcast({0}, {2}, "add"), "do not broadcast");
  CHECK_FAILS(UserError, broadcast({kBig, 1}, {1, kBig}, "add"), "does not fit 64 bits");
}
