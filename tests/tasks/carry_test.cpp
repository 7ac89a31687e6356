// What is carried for a whole batch and for its parts.
#include "tasks/carry.h"

#include <array>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/tensors.h"

using namespace tandem;
using tasks::Carry;

namespace {

// [2,5,1] and [1,5,2], numbered.
Carry whole() {
  Carry carry;
  carry.set("h", Tensor::from<float>({0, 1, 2, 3, 4, 10, 11, 12, 13, 14}, {2, 5, 1}));
  carry.set("c", Tensor::from<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 5, 2}));
  return carry;
}

std::vector<float> values_in(const Carry& carry, const char* name) {
  return carry.find(name).to_vector<float>();
}

}  // namespace

TEST_CASE("a carry is divided along its samples, as evenly as can be", "[carry]") {
  const std::vector<Carry> parts = whole().divided(2);
  REQUIRE(parts.size() == 2);
  CHECK(values_in(parts[0], "h") == std::vector<float>{0, 1, 2, 10, 11, 12});
  CHECK(values_in(parts[1], "h") == std::vector<float>{3, 4, 13, 14});
  CHECK(parts[0].find("c").shape() == Shape({1, 3, 2}));
  CHECK(values_in(parts[1], "c") == std::vector<float>{6, 7, 8, 9});
}

TEST_CASE("parts are joined to the whole, those without samples left out", "[carry]") {
  for (const Index count : {1, 2, 5, 7}) {
    const Carry joined = Carry::joined(whole().divided(count));
    CHECK(values_in(joined, "h") == values_in(whole(), "h"));
    CHECK(joined.find("c").shape() == Shape({1, 5, 2}));
    CHECK(values_in(joined, "c") == values_in(whole(), "c"));
  }
  CHECK(Carry::joined({}).empty());
  CHECK(Carry::joined(Carry().divided(3)).empty());
}

TEST_CASE("parts that carry different things are a mistake of Tandem's", "[carry]") {
  std::array<Carry, 2> parts;
  parts[0].set("h", Tensor::zeros({1, 1, 1}));
  parts[1].set("c", Tensor::zeros({1, 1, 1}));
  CHECK_THROWS_AS(Carry::joined(parts), InternalError);
}
