// Costs computed by hand.
#include "amp/plan/cost.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

// 1 MB/µs, 5 µs.
constexpr Rates kRates{.bytes_per_second = 1e12, .launch_ns = 5000};

}  // namespace

TEST_CASE("storage and casts of a million elements", "[plan]") {
  CHECK(storage_ns(kRates, 1'000'000, 0, true, true) == 4000);
  CHECK(storage_ns(kRates, 1'000'000, 2, true, true) == 12000);
  CHECK(storage_ns(kRates, 1'000'000, 1, true, false) == 4000);
  CHECK(storage_ns(kRates, 1'000'000, 1, false, true) == 4000);
  CHECK(cast_ns(kRates, 1'000'000, true) == 22000);
  CHECK(cast_ns(kRates, 1'000'000, false) == 11000);
  CHECK(working_copy_ns(kRates, 250'000) == 500);
  CHECK_FAILS(UserError, cast_ns({}, 1, true), "bytes_per_second must be positive");
}

TEST_CASE("a graph is priced as by hand", "[plan]") {
  const GraphMaker expected = block();
  GraphMaker g = block();
  // The mean and the loss are scalars, which the prices by hand leave out.
  for (const char* name : {"m", "loss"}) g[name].results[0].elements = 0;
  for (Op& op : g.graph.ops)
    for (Result& result : op.results) result.storage_ns = result.cast_ns = -1;
  const Graph priced_graph = priced(g.graph, kRates);
  for (std::size_t i = 0; i < priced_graph.ops.size(); ++i) {
    const Op& op = priced_graph.ops[i];
    if (op.key.path == "m" || op.key.path == "loss") continue;
    CAPTURE(op.key.path);
    CHECK(op.results == expected.graph.ops[i].results);
  }
}

TEST_CASE("views and inputs are not written", "[plan]") {
  GraphMaker g;
  g.input("x").results = {{.elements = 1'000'000, .gradient = false}};
  g.op("t", "tanh", CastRule::neutral, {"x"}).results = {{.elements = 1'000'000}};
  Op& view = g.op("view", "reshape", CastRule::neutral, {"t"});
  view.view = true;
  view.results = {{.elements = 1'000'000}};
  g.op("r", "relu", CastRule::neutral, {"view"});
  const Graph graph = priced(g.graph, kRates);
  CHECK(graph.ops[0].results[0].storage_ns == 2000);  // one read, no gradient
  CHECK(graph.ops[1].results[0].storage_ns == 4000);  // written; the view does not read
  CHECK(graph.ops[2].results[0].storage_ns == 4000);  // read
}

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

TEST_CASE("padding and waves", "[plan]") {
  CHECK(padding_share({8, 8, 8}, {8, 8, 8}) == 1.0);
  CHECK(padding_share({1, 1, 1}, {2, 4, 8}) == Approx(1.0 / 64));
  CHECK(padding_share({100, 33, 16}, {16, 16, 32}) == Approx(100.0 * 33 * 16 / (112.0 * 48 * 32)));
  CHECK(padding_share({0, 8, 8}, {8, 8, 8}) == 1.0);
  // 128×256 tiles on 132 units: 12 × 12 tiles are two waves.
  const Tiles tiles{.tile_m = 128, .tile_n = 256, .units = 132};
  CHECK(wave_share({12 * 128, 12 * 256, 64}, tiles) == Approx(144.0 / 264));
  CHECK(wave_share({12 * 128, 11 * 256, 64}, tiles) == 1.0);
  CHECK(wave_share({1, 1, 1}, tiles) == Approx(1.0 / 132));
  CHECK(wave_share({0, 1, 1}, tiles) == 1.0);
}

TEST_CASE("the roofline's bound is its largest part", "[plan]") {
  const Rates rates{.bytes_per_second = 1e9, .launch_ns = 1000};
  const Estimate compute = roofline(rates, 8000, 1e9, 0.5, 2000);  // 16 µs, 2 µs
  CHECK(compute.ns == Approx(17000));
  CHECK(compute.bound == Bound::compute);
  const Estimate memory = roofline(rates, 8000, 1e10, 0.5, 2000);
  CHECK(memory.ns == Approx(3000));
  CHECK(memory.bound == Bound::memory);
  const Estimate overhead = roofline(rates, 0, 0, 1.0, 999);
  CHECK(overhead.ns == Approx(1999));
  CHECK(overhead.bound == Bound::overhead);
  CHECK(roofline(rates, 0, 0, 1.0, 1000).bound == Bound::memory);
  CHECK(bound_of(memory, 12'000) == Bound::memory);
  CHECK(bound_of(memory, 12'001) == Bound::overhead);
}

TEST_CASE("a step gains what its parts gain", "[plan]") {
  CHECK(step_speedup(0.5, 0.0, 5.0) == Approx(1.0 / 0.6));  // Amdahl
  CHECK(step_speedup(0.0, 1.0, 5.0) == Approx(2.0));
  CHECK(step_speedup(0.0, 0.0, 5.0) == Approx(1.0));
}
