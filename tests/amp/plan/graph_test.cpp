// The planner's graph: consumers of each tensor, through views, and invalid graphs.
#include "amp/plan/graph.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

using Ops = std::vector<int>;

// n → view → p, n → q, and n again to whoever is added.
GraphMaker with_view() {
  GraphMaker g;
  g.op("n", "layer_norm", CastRule::fp32, {});
  g.op("view", "reshape", CastRule::neutral, {"n"}).view = true;
  g.op("p", "linear", CastRule::lower, {"view"});
  g.op("q", "matmul", CastRule::lower, {"n", "view"});
  return g;
}

}  // namespace

TEST_CASE("ops are named by path, op and call", "[plan]") {
  CHECK(to_string(OpKey{"layer1.0", "conv2d", 0}) == "layer1.0 conv2d");
  CHECK(to_string(OpKey{"layer1.0", "conv2d", 2}) == "layer1.0 conv2d #2");
  CHECK(to_string(OpKey{"", "mul", 0}) == "mul");
  CHECK(to_string(OpKey{"fc.weight", "", 0}) == "fc.weight");
}

TEST_CASE("reasons have names that are read back", "[plan]") {
  for (const Why why :
       {Why::gain, Why::loss, Why::rule, Why::must, Why::strict, Why::round_early, Why::accuracy, Why::tie})
    CHECK(why_from_name(name_of(why)) == why);
  CHECK(std::string(name_of(Why::round_early)) == "round-early");
  CHECK_FALSE(why_from_name("because"));
}

TEST_CASE("products, views and everybody else read a result", "[plan]") {
  GraphMaker g = with_view();
  g.op("r", "relu", CastRule::neutral, {"n"});
  Op& r = g["q"];
  r.reads.push_back({g.at("n"), 0, Role::keep});
  const ReaderTable readers = readers_of(g.graph);
  const Readers& of_n = readers[0][0];
  CHECK(of_n.products == Ops{g.at("q")});
  CHECK(of_n.views == Ops{g.at("view")});
  CHECK(of_n.others == 2);  // relu, and what q keeps as it is
  CHECK(readers[1][0].products == Ops{g.at("p"), g.at("q")});
}

TEST_CASE("consumers of a view count as consumers of its root", "[plan]") {
  GraphMaker g = with_view();
  CHECK(only_products(g.graph, readers_of(g.graph), 0) == Ops{2, 3});
  CHECK(only_products(g.graph, readers_of(g.graph), 1).empty());  // a view is no op of its own
  CHECK(only_products(g.graph, readers_of(g.graph), 2).empty());  // nobody reads it
  g.op("r", "relu", CastRule::neutral, {"view"});
  CHECK(only_products(g.graph, readers_of(g.graph), 0).empty());
}

TEST_CASE("views have a root and its type", "[plan]") {
  GraphMaker g = with_view();
  g.op("view2", "reshape", CastRule::neutral, {"view"}).view = true;
  CHECK(root_of(g.graph, g.at("view2")) == 0);
  CHECK(root_of(g.graph, 2) == 2);
  Assignment assignment(g.graph.ops.size());
  assignment[0].out = true;
  CHECK_FAILS(InternalError, check(g.graph, assignment), "is a view of n layer_norm and has another type");
  follow_roots(g.graph, assignment);
  CHECK(names_of(g.graph, assignment) == std::vector<std::string>{"n", "view", "view2"});
  CHECK_NOTHROW(check(g.graph, assignment));
}

TEST_CASE("neighbours are joined by data", "[plan]") {
  GraphMaker g = with_view();
  g["q"].reads[0].role = Role::keep;
  const Neighbours neighbours = neighbours_of(g.graph);
  CHECK(neighbours.after[0] == Ops{1});
  CHECK(neighbours.after[1] == Ops{2, 3});
  CHECK(neighbours.before[3] == Ops{1});
}

TEST_CASE("ops that may be lowered", "[plan]") {
  Op op{.key = {"a", "tanh"}, .rule = CastRule::neutral};
  CHECK(may_lower(op));
  Op other = op;
  other.capable = false;
  CHECK_FALSE(may_lower(other));
  other = op;
  other.fetched = true;
  CHECK_FALSE(may_lower(other));
  other = op;
  other.pin.out = false;
  CHECK_FALSE(may_lower(other));
  other.pin.out = true;
  CHECK(may_lower(other));
  other.pin.operands = false;
  CHECK_FALSE(may_lower(other));
  other = op;
  other.rule = CastRule::none;
  CHECK_FALSE(may_lower(other));
  other = op;
  other.kind = Kind::parameter;
  CHECK_FALSE(may_lower(other));
}

TEST_CASE("invalid graphs are refused", "[plan]") {
  const auto broken = [](const std::function<void(GraphMaker&)>& change) {
    GraphMaker g = with_view();
    change(g);
    return g.graph;
  };
  CHECK_NOTHROW(check(broken([](GraphMaker&) {})));
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["p"].reads[0].op = 2; })),
              "does not come before it");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["p"].reads[0].op = -1; })),
              "does not come before it");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["p"].reads[0].result = 1; })),
              "reads result 1 of op 1, which has 1");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["q"].key = g["n"].key; })),
              "n layer_norm occurs twice");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["p"].ns.low = -1; })), "takes 0 and -1 ns");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["p"].results[0].cast_ns = -1; })),
              "no negative values");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["p"].kind = Kind::input; })),
              "is not an op and reads 1");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["p"].view = true; })),
              "is a view, but not an op");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["view"].fetched = true; })),
              "is a view and is pinned");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) { g["view"].pin.out = true; })),
              "is a view and is pinned");
  CHECK_FAILS(InternalError, check(broken([](GraphMaker& g) {
                g.graph.ties = {{0, 4}};
              })),
              "ops 0 and 4 of 4 are tied");
}

TEST_CASE("invalid assignments are refused", "[plan]") {
  const GraphMaker g = with_view();
  CHECK_FAILS(InternalError, check(g.graph, Assignment(3)), "an assignment of 3 ops for a graph of 4");
  Assignment assignment(4);
  assignment[0].operands = true;
  CHECK_FAILS(InternalError, check(g.graph, assignment), "n layer_norm is not a product");
}
