// States of a batch and its parts, and the state carried to the next chunk of a stream.
#include "models/state.h"

#include <array>
#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"
#include "tests/support/tensors.h"

using namespace tandem;
using models::State;

namespace {

// [2,5,1] and [1,5,2], numbered.
State whole() {
  State state;
  state.set("h", Tensor::from<float>({0, 1, 2, 3, 4, 10, 11, 12, 13, 14}, {2, 5, 1}));
  state.set("c", Tensor::from<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 5, 2}));
  return state;
}

std::vector<float> values_in(const State& state, const char* name) {
  return state.find(name).to_vector<float>();
}

}  // namespace

TEST_CASE("a state is divided along its samples, as evenly as can be", "[state]") {
  const std::vector<State> parts = whole().divided(2);
  REQUIRE(parts.size() == 2);
  CHECK(values_in(parts[0], "h") == std::vector<float>{0, 1, 2, 10, 11, 12});
  CHECK(values_in(parts[1], "h") == std::vector<float>{3, 4, 13, 14});
  CHECK(parts[0].find("c").shape() == Shape({1, 3, 2}));
  CHECK(values_in(parts[1], "c") == std::vector<float>{6, 7, 8, 9});
}

TEST_CASE("parts are joined to the whole, those without samples left out", "[state]") {
  for (const Index count : {1, 2, 5, 7}) {
    const State joined = State::joined(whole().divided(count));
    CHECK(values_in(joined, "h") == values_in(whole(), "h"));
    CHECK(joined.find("c").shape() == Shape({1, 5, 2}));
    CHECK(values_in(joined, "c") == values_in(whole(), "c"));
  }
  CHECK(State::joined({}).empty());
  CHECK(State::joined(State().divided(3)).empty());
}

TEST_CASE("parts with different tensors are a mistake of Tandem's", "[state]") {
  std::array<State, 2> parts;
  parts[0].set("h", Tensor::zeros({1, 1, 1}));
  parts[1].set("c", Tensor::zeros({1, 1, 1}));
  CHECK_THROWS_AS(State::joined(parts), InternalError);
}

TEST_CASE("a row that is not finite begins anew, and no other", "[state]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  State state;
  // Row 1 is spoilt in the second layer's h, row 2 in a cache of keys.
  state.set("h", Tensor::from({1, 2, 3, 4, 5, 6, 7, 8, 9, nan, 11, 12}, {2, 3, 2}));
  state.set("keys", Tensor::from({1, 2, 3, 4, 5, 6, 7, 8, inf, 10, 11, 12}, {1, 3, 2, 2}));
  state.set("words", Tensor::from(std::vector<std::int64_t>{4, 5, 6}, {1, 3}));
  const State carried = state.carried();
  CHECK(values_in(carried, "h") == std::vector<float>{1, 2, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0});
  CHECK(values_in(carried, "keys") == std::vector<float>{1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(carried.find("words").to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 5, 6});
  CHECK(State().carried().empty());
}

TEST_CASE("rows of a state are selected, as often as is asked for", "[state]") {
  const State selected = whole().select(Tensor::from(std::vector<std::int64_t>{4, 1, 1}, {3}));
  CHECK(values_in(selected, "h") == std::vector<float>{4, 1, 1, 14, 11, 11});
  CHECK(values_in(selected, "c") == std::vector<float>{8, 9, 2, 3, 2, 3});
}
