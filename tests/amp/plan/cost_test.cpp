// Costs computed by hand.
#include "amp/plan/cost.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

TEST_CASE("differences that are noise count as none", "[plan]") {
  GraphMaker g;
  const auto low_after = [&](std::int64_t f32, std::int64_t low) {
    g = {};
    g.op("p", "linear", CastRule::lower, {}).ns = {f32, low};
    return without_noise(g.graph).ops[0].ns.low;
  };
  CHECK(low_after(1000, 801) == 1000);
  CHECK(low_after(1000, 800) == 800);  // as much as the band is not below it
  CHECK(low_after(1000, 1199) == 1000);
  CHECK(low_after(1000, 1200) == 1200);
  CHECK(low_after(100'000, 98'001) == 100'000);
  CHECK(low_after(100'000, 98'000) == 98'000);
  CHECK(without_noise(g.graph, {.ns = 5000, .share = 0.0}).ops[0].ns.low == 100'000);
}
