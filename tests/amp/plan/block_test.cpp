// A transformer block under every policy, with times in µs computed by hand.
#include <catch2/catch.hpp>

#include "amp/plan/cut.h"
#include "amp/plan/pai_policy.h"
#include "amp/plan/prediction.h"
#include "amp/plan/rules.h"
#include "amp/plan/tf_policy.h"
#include "tests/amp/plan/graphs.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

using Names = std::vector<std::string>;

double us(const Graph& graph, const Assignment& assignment, bool share = true) {
  return static_cast<double>(predict(graph, assignment, share).total()) / 1000;
}

// Of what is cast, parameters apart.
Names casts(const Graph& graph, const Assignment& assignment, bool share = true) {
  Names names;
  for (const PlannedCast& cast : predict(graph, assignment, share).casts)
    if (graph.at(cast.op).kind == Kind::op) names.push_back(graph.at(cast.op).key.path);
  return names;
}

}  // namespace

TEST_CASE("a block in f32", "[plan]") {
  const GraphMaker g = block();
  CHECK(us(g.graph, full_precision(g.graph)) == 194.0);
}

TEST_CASE("a block under autocast, and with shared casts", "[plan]") {
  const GraphMaker g = block();
  const Assignment o1 = rules(g.graph);
  CHECK(names_of(g.graph, o1, true) == Names{"q", "v", "av", "h"});
  CHECK(names_of(g.graph, o1) == Names{"q", "v", "s", "av", "h"});
  CHECK(us(g.graph, o1, false) == 173.5);
  CHECK(casts(g.graph, o1, false) == Names{"l", "l", "sm", "a"});
  CHECK(us(g.graph, o1) == 151.5);
  CHECK(casts(g.graph, o1) == Names{"l", "sm", "a"});
}

TEST_CASE("a parameter is cast once, shared or not", "[plan]") {
  GraphMaker g = block();
  g["v"].reads[1] = g["q"].reads[1];
  const Prediction prediction = predict(g.graph, rules(g.graph), /*share=*/false);
  CHECK(prediction.casts.front() ==
        PlannedCast{.op = g.at("wq"), .result = 0, .low = true, .consumers = 2, .ns = 500});
  CHECK(prediction.casts[1].op == g.at("wh"));
}

TEST_CASE("a block in colours, and grown", "[plan]") {
  const GraphMaker g = block();
  const AllowDeny colouring = tf_policy(g.graph, op_lists(g.graph));
  CHECK(names_of(g.graph, colouring.allow) == Names{"q", "v", "av", "a", "h"});
  CHECK(pai_policy(g.graph) == colouring.allow);
  const Assignment painted = allowed_types(g.graph, colouring.allow);
  CHECK(us(g.graph, painted) == 129.5);
  CHECK(casts(g.graph, painted) == Names{"l", "sm"});
}

TEST_CASE("a block cut", "[plan]") {
  const GraphMaker g = block();
  const Assignment late = cut(g.graph, {.round_early = false});
  CHECK(names_of(g.graph, late, true) == Names{"q", "v", "av"});
  CHECK(names_of(g.graph, late) == Names{"q", "v", "s", "av"});
  CHECK(us(g.graph, late) == 139.0);
  CHECK(casts(g.graph, late) == Names{"l", "sm"});

  const Assignment early = cut(g.graph);
  CHECK(names_of(g.graph, early, true) == Names{"q", "v", "av"});
  CHECK(names_of(g.graph, early) == Names{"l", "q", "v", "s", "av"});
  CHECK(us(g.graph, early) == 113.0);
  CHECK(casts(g.graph, early) == Names{"sm"});

  const Assignment free = cut(g.graph, {.rounding = Rounding::free});
  CHECK(names_of(g.graph, free, true) == Names{"q", "v", "av", "h"});
  CHECK(names_of(g.graph, free) == Names{"l", "q", "v", "s", "av", "a", "h"});
  CHECK(us(g.graph, free) == 95.5);
  CHECK(casts(g.graph, free) == Names{"sm"});
}

TEST_CASE("why a block's ops have their types", "[plan]") {
  const GraphMaker g = block();
  const std::vector<Why> why = reasons(g.graph, cut(g.graph), {});
  const auto of = [&](const std::string& name) { return why[static_cast<std::size_t>(g.at(name))]; };
  CHECK(of("q") == Why::gain);
  CHECK(of("l") == Why::round_early);
  CHECK(of("s") == Why::gain);
  CHECK(of("sm") == Why::rule);
  CHECK(of("e") == Why::rule);
  CHECK(of("a") == Why::strict);
  CHECK(of("h") == Why::loss);  // 2 µs faster, and a cast of 22 µs
  const std::vector<Why> listed = reasons(g.graph, rules(g.graph), {}, /*by_lists=*/true);
  CHECK(listed[static_cast<std::size_t>(g.at("h"))] == Why::rule);
  CHECK(listed[static_cast<std::size_t>(g.at("a"))] == Why::rule);
}

TEST_CASE("priced growth wants a gain", "[plan]") {
  GraphMaker g;
  g.op("p", "linear", CastRule::lower, {}).ns = {5, 5};
  CHECK(pai_policy(g.graph) == std::vector<bool>{true});
  CHECK(priced_growth(g.graph) == std::vector<bool>{false});
}

TEST_CASE("priced growth pays for a cast where it gains", "[plan]") {
  const GraphMaker g = block();
  // q alone gains 28 µs and 0.5 less than a cast of 22, v then 28; av 16, and 8 by its result, for a cast
  // of 22. The sum would gain 8 by its result, but h comes later and wants it in f32, for 22.
  CHECK(names_of(g.graph, priced_growth(g.graph)) == Names{"q", "v", "av"});
  GraphMaker dear = block();
  dear["l"].results[0].cast_ns = 100'000;
  // Neither q nor v alone pays for the cast, which both would; av would be cast from v and from sm.
  CHECK(priced_growth(dear.graph) == std::vector<bool>(g.graph.ops.size()));
  dear["l"].results[0].cast_ns = 30'000;
  CHECK(predict(dear.graph, cut(dear.graph, {.round_early = false})).total() <
        predict(dear.graph, allowed_types(dear.graph, priced_growth(dear.graph))).total());
}
