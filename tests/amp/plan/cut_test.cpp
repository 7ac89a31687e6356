// The planner's cut against all assignments of random graphs, by its formula and rules.
#include "amp/plan/cut.h"

#include <catch2/catch.hpp>
#include <functional>

#include "amp/plan/prediction.h"
#include "amp/plan/rules.h"
#include "amp/plan/tf_policy.h"
#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

using Names = std::vector<std::string>;

// Results of `op`, and of its views, are read by products alone, and by one; these.
bool read_by_products(const Graph& graph, int op, std::vector<int>& products) {
  for (int i = 0; i < graph.count(); ++i)
    for (std::size_t r = 0; r < graph.at(i).reads.size(); ++r) {
      const Read& read = graph.at(i).reads[r];
      if (read.op != op) continue;
      if (graph.at(i).view && r == 0) {
        if (!read_by_products(graph, i, products)) return false;
      } else if (is_product(graph.at(i)) && read.role == Role::data) {
        products.push_back(i);
      } else {
        return false;
      }
    }
  return true;
}

// The constraints, one op after the other.
bool allowed(const Graph& graph, const Assignment& a, const Freedom& freedom) {
  for (int i = 0; i < graph.count(); ++i) {
    const Op& op = graph.at(i);
    const Types types = a[static_cast<std::size_t>(i)];
    const auto low = [&](int other) { return a[static_cast<std::size_t>(other)].out; };
    const bool follows = (op.rule == CastRule::neutral || op.rule == CastRule::widest) && reads_data(op);
    if (is_product(op) && types.operands != op.pin.operands.value_or(op.capable && types.operands))
      return false;
    if (op.view) {
      if (types.out != low(op.reads[0].op)) return false;
      continue;
    }
    if (op.fetched) {
      if (types.out) return false;
      continue;
    }
    if (op.pin.out) {
      if (types.out != *op.pin.out) return false;
      continue;
    }
    if (!types.out) continue;
    if (op.kind != Kind::op || !op.capable) return false;
    std::vector<int> products;
    const bool early = freedom.round_early && !op.keeps_output && !op.pin.operands.has_value() &&
                       (freedom.rounding == Rounding::strict || !follows) &&
                       read_by_products(graph, i, products) && !products.empty();
    if (early) {
      for (const int product : products)
        if (!a[static_cast<std::size_t>(product)].operands) return false;
    } else if (is_product(op)) {
      if (!types.operands) return false;
    } else if (!follows) {
      return false;
    } else if (freedom.rounding == Rounding::strict) {
      for (const Read& read : op.reads)
        if (read.role == Role::data && !low(read.op)) return false;
    }
  }
  return true;
}

// E of the page.
std::int64_t formula(const Graph& graph, const Assignment& a) {
  std::int64_t sum = 0;
  for (int i = 0; i < graph.count(); ++i) {
    const Op& op = graph.at(i);
    const Types types = a[static_cast<std::size_t>(i)];
    sum += types.operands ? op.ns.low : op.ns.f32;
    if (types.operands && !types.out) sum += op.widening_ns;
    if (!types.out) sum += op.results[0].storage_ns;
    bool other = false;
    for (int p = 0; p < graph.count(); ++p)
      for (const Read& read : graph.at(p).reads)
        if (read.op == i && is_product(graph.at(p)) && read.role == Role::data)
          other |= a[static_cast<std::size_t>(p)].operands != types.out;
    if (other) sum += op.results[0].cast_ns;
  }
  return sum;
}

// Calls visit for every allowed assignment.
void for_each_allowed(const Graph& graph, const Freedom& freedom,
                      const std::function<void(const Assignment&)>& visit) {
  std::vector<std::pair<int, bool>> variables;  // op, whether its operands
  for (int i = 0; i < graph.count(); ++i) {
    if (graph.at(i).kind != Kind::op) continue;
    if (!graph.at(i).view) variables.emplace_back(i, false);
    if (is_product(graph.at(i))) variables.emplace_back(i, true);
  }
  for (int bits = 0; bits < 1 << variables.size(); ++bits) {
    Assignment a(graph.ops.size());
    for (std::size_t v = 0; v < variables.size(); ++v) {
      Types& types = a[static_cast<std::size_t>(variables[v].first)];
      (variables[v].second ? types.operands : types.out) = (bits >> v) & 1;
    }
    follow_roots(graph, a);
    if (allowed(graph, a, freedom)) visit(a);
  }
}

constexpr Freedom kFreedoms[] = {
    {Rounding::strict, true}, {Rounding::strict, false}, {Rounding::free, true}, {Rounding::free, false}};

// 16-bit in `a` wherever it is in `b`.
bool contains(const Assignment& a, const Assignment& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if ((b[i].out && !a[i].out) || (b[i].operands && !a[i].operands)) return false;
  return true;
}

}  // namespace

TEST_CASE("the cut is the cheapest of all allowed assignments, and contained in every other", "[plan][cut]") {
  Dice dice(3);
  int ties = 0, lowered_graphs = 0;
  for (int trial = 0; trial < 240; ++trial) {
    const Graph graph = random_graph(dice, trial % 8 == 0 ? 14 : 10);
    const Freedom freedom = kFreedoms[trial % 4];
    CAPTURE(trial);
    std::int64_t best = -1;
    Assignment common;
    int minima = 0;
    for_each_allowed(graph, freedom, [&](const Assignment& a) {
      const std::int64_t ns = formula(graph, a);
      if (best >= 0 && ns > best) return;
      minima = ns == best ? minima + 1 : 1;
      if (best < 0 || ns < best) common = a;
      best = ns;
      for (std::size_t i = 0; i < a.size(); ++i)
        common[i] = {common[i].operands && a[i].operands, common[i].out && a[i].out};
    });
    REQUIRE(best >= 0);
    const Assignment found = cut(graph, freedom);
    REQUIRE(predict(graph, found).total() == best);
    REQUIRE(found == common);
    ties += minima > 1;
    lowered_graphs += !lowered(graph, found).empty();
  }
  CHECK(ties > 15);
  CHECK(lowered_graphs > 120);
}

TEST_CASE("an energy allows and costs what the rules and the formula say", "[plan][cut]") {
  Dice dice(4);
  for (int trial = 0; trial < 40; ++trial) {
    const Graph graph = random_graph(dice, 8);
    for (const Freedom& freedom : kFreedoms) {
      const GraphEnergy energy(graph, freedom);
      int allowed_count = 0;
      for_each_allowed(graph, freedom, [&](const Assignment& a) {
        ++allowed_count;
        REQUIRE(energy.of(a) == formula(graph, a));
        REQUIRE(predict(graph, a).total() == formula(graph, a));
        REQUIRE(energy.assignment(energy.labels(a)) == a);
      });
      REQUIRE(allowed_count > 0);
      Assignment all(graph.ops.size(), {false, true});
      for (int i = 0; i < graph.count(); ++i)
        all[static_cast<std::size_t>(i)].operands = is_product(graph.at(i));
      REQUIRE(energy.of(all).has_value() == allowed(graph, all, freedom));
    }
  }
}

TEST_CASE("autocast is a strict assignment, so none is predicted slower", "[plan][cut]") {
  Dice dice(5);
  for (int trial = 0; trial < 200; ++trial) {
    Graph graph = random_graph(dice, 20);
    for (Op& op : graph.ops) {
      op.pin = {};
      op.capable = true;
      op.fetched = false;
    }
    const Assignment o1 = rules(graph);
    for (const bool early : {false, true}) {
      const Freedom freedom{.round_early = early};
      REQUIRE(GraphEnergy(graph, freedom).of(o1).has_value());
      REQUIRE(predict(graph, cut(graph, freedom)).total() <= predict(graph, o1).total());
    }
    REQUIRE(predict(graph, cut(graph)).total() <= predict(graph, full_precision(graph)).total());
  }
}

TEST_CASE("more gain takes nothing out of 16 bits, and a pin to f32 brings nothing in", "[plan][cut]") {
  Dice dice(6);
  for (int trial = 0; trial < 200; ++trial) {
    const Graph graph = random_graph(dice, 20);
    const Freedom freedom = kFreedoms[trial % 4];
    const Assignment before = cut(graph, freedom);
    Graph faster = graph;
    Op& op = faster.ops[static_cast<std::size_t>(dice.below(graph.count()))];
    op.ns.f32 += dice.below(8);
    op.results[0].storage_ns += dice.below(8);
    REQUIRE(contains(cut(faster, freedom), before));
    const std::vector<int> low = lowered(graph, before);
    if (low.empty()) continue;
    const int pinned_op = low[static_cast<std::size_t>(dice.below(static_cast<int>(low.size())))];
    const Op& chosen = graph.at(pinned_op);
    if (chosen.pin != Pin{}) continue;
    REQUIRE(contains(before, cut(without(graph, {pinned_op}), freedom)));
  }
}

TEST_CASE("dearer casts are fewer", "[plan][cut]") {
  Dice dice(7);
  for (int trial = 0; trial < 200; ++trial) {
    const Graph graph = random_graph(dice, 20);
    Graph dear = graph;
    for (Op& op : dear.ops)
      for (Result& result : op.results) result.cast_ns *= 3;
    const Freedom freedom = kFreedoms[trial % 4];
    REQUIRE(predict(dear, cut(dear, freedom)).cast_ns <= 3 * predict(graph, cut(graph, freedom)).cast_ns);
  }
}

TEST_CASE("equal times are f32, and without casts each op decides by itself", "[plan][cut]") {
  Dice dice(8);
  for (int trial = 0; trial < 100; ++trial) {
    Graph graph = random_graph(dice, 20);
    for (Op& op : graph.ops) op.pin = {};
    Graph equal = graph;
    for (Op& op : equal.ops) {
      op.ns.low = op.ns.f32;
      for (Result& result : op.results) result.storage_ns = 0;
    }
    REQUIRE(cut(equal) == full_precision(equal));
    Graph free_casts = graph;
    for (Op& op : free_casts.ops) {
      op.widening_ns = 0;
      for (Result& result : op.results) {
        result.cast_ns = 0;
        result.storage_ns = 0;
      }
    }
    const Assignment found = cut(free_casts);
    for (int i = 0; i < graph.count(); ++i) {
      const Op& op = graph.at(i);
      REQUIRE(found[static_cast<std::size_t>(i)].operands ==
              (is_product(op) && op.capable && op.ns.low < op.ns.f32));
    }
  }
}

TEST_CASE("planning what was planned changes nothing", "[plan][cut]") {
  Dice dice(9);
  for (int trial = 0; trial < 60; ++trial) {
    const Graph graph = random_graph(dice, 20);
    const Assignment found = cut(graph);
    REQUIRE(cut(graph) == found);
    Graph again = graph;
    for (std::size_t i = 0; i < again.ops.size(); ++i)
      if (again.ops[i].kind == Kind::op && !again.ops[i].view)
        again.ops[i].pin = {
            .operands = is_product(again.ops[i]) ? std::optional(found[i].operands) : std::nullopt,
            .out = found[i].out};
    REQUIRE(cut(again) == found);
  }
}

TEST_CASE("tensors without a product are not rounded early", "[plan][cut]") {
  GraphMaker g;
  g.op("n", "layer_norm", CastRule::fp32, {}).results[0] = {.storage_ns = 10};
  CHECK(cut(g.graph) == full_precision(g.graph));
  g.op("p", "linear", CastRule::lower, {"n"}).ns = {5, 1};
  CHECK(names_of(g.graph, cut(g.graph)) == Names{"n"});
  g["n"].keeps_output = true;
  CHECK(names_of(g.graph, cut(g.graph)).empty());
  g["n"].keeps_output = false;
  g["n"].fetched = true;
  CHECK(names_of(g.graph, cut(g.graph)).empty());
  g["n"].fetched = false;
  g.op("r", "tanh", CastRule::neutral, {"n"});
  CHECK(names_of(g.graph, cut(g.graph)).empty());
}

TEST_CASE("an op that is banned reads f32", "[plan][cut]") {
  GraphMaker g;
  g.op("p", "linear", CastRule::lower, {}).ns = {9, 1};
  g["p"].results[0] = {.storage_ns = 5};
  g.op("s", "sigmoid", CastRule::neutral, {"p"}).results[0] = {.storage_ns = 5};
  CHECK(names_of(g.graph, cut(g.graph)) == Names{"p", "s"});
  g.op("bce", "bce_loss", CastRule::banned, {"s"});
  CHECK(names_of(g.graph, cut(g.graph)) == Names{"p"});
  CHECK(names_of(g.graph, cut(g.graph, {.rounding = Rounding::free})) == Names{"p"});
  CHECK_FAILS(UserError, rules(g.graph), "[bce bce_loss] its gradient does not fit 16 bits");
}

TEST_CASE("parameters read by others than products are f32 data", "[plan][cut]") {
  GraphMaker g;
  g.parameter("position");
  g.op("p", "linear", CastRule::lower, {}).ns = {9, 1};
  g["p"].results[0] = {.storage_ns = 5};
  g.op("sum", "add", CastRule::widest, {"p", "position"}).results[0] = {.storage_ns = 5};
  CHECK(names_of(g.graph, cut(g.graph)) == Names{"p"});
  CHECK(names_of(g.graph, rules(g.graph)) == Names{"p"});
  CHECK(names_of(g.graph, cut(g.graph, {.rounding = Rounding::free})) == Names{"p", "sum"});
}

TEST_CASE("parameters that are kept in f32 decide nothing", "[plan][cut]") {
  GraphMaker g;
  g.parameter("gamma");
  g.op("p", "conv2d", CastRule::lower, {}).ns = {9, 1};
  g["p"].results[0] = {.storage_ns = 5};
  g.op("bn", "batch_norm_train", CastRule::neutral, {"p"}).results[0] = {.storage_ns = 5};
  g["bn"].reads.push_back({g.at("gamma"), 0, Role::keep});
  CHECK(names_of(g.graph, cut(g.graph)) == Names{"p", "bn"});
  CHECK(names_of(g.graph, rules(g.graph)) == Names{"p", "bn"});
  CHECK(names_of(g.graph, low_precision(g.graph)) == Names{"p", "bn"});
}

TEST_CASE("pins of the user hold in every policy", "[plan][cut]") {
  const GraphMaker g = block();
  const Graph full = pinned(g.graph, {{"^(q|s)$", false}});
  CHECK(names_of(full, cut(full), true) == Names{"v", "av"});
  CHECK(names_of(full, rules(full), true) == Names{"v", "av", "h"});
  CHECK(names_of(full, rules(full)) == Names{"v", "av", "h"});
  CHECK(names_of(full, tf_policy(full, op_lists(full)).allow) == Names{"v", "av", "a", "h"});
  const Graph low = pinned(g.graph, {{"h linear", true}, {"^a$", true}});
  CHECK(names_of(low, cut(low), true) == Names{"q", "v", "av", "h"});
  CHECK(names_of(low, cut(low)) == Names{"l", "q", "v", "s", "av", "a", "h"});
  CHECK(reasons(low, cut(low), {})[static_cast<std::size_t>(g.at("a"))] == Why::must);
  Graph fetched = g.graph;
  fetched.ops[static_cast<std::size_t>(g.at("h"))].fetched = true;
  CHECK_FAILS(UserError, pinned(fetched, {{"^h$", true}}), "none of which may be 16-bit");
  CHECK(names_of(fetched, rules(fetched)) == names_of(g.graph, rules(g.graph)));
  // The later counts; a softmax in a block of 16 bits stays f32.
  const Graph both = pinned(g.graph, {{"^s", false}, {"^s", true}});
  CHECK(both.at(g.at("s")).pin.out == true);
  CHECK(both.at(g.at("sm")).pin.out == false);
}

TEST_CASE("pins that pin nothing are refused", "[plan]") {
  const GraphMaker g = block();
  CHECK_FAILS(UserError, pinned(g.graph, {{"losss", false}}),
              "must \"losss\" matches none of the 11 ops; did you mean \"loss\"?");
  CHECK_FAILS(UserError, pinned(g.graph, {{"^sm$", true}}), "matches 1 ops, none of which may be 16-bit");
  CHECK_FAILS(UserError, pinned(g.graph, {{"(", false}}), "");
}

TEST_CASE("tied ops have the same types", "[plan][cut]") {
  GraphMaker g;
  g.op("p", "linear", CastRule::lower, {}).ns = {9, 1};
  g.op("q", "linear", CastRule::lower, {}).ns = {1, 4};
  CHECK(names_of(g.graph, cut(g.graph), true) == Names{"p"});
  g.graph.ties = {{0, 1}};
  CHECK(names_of(g.graph, cut(g.graph), true) == Names{"p", "q"});
  g["q"].ns = {1, 20};
  CHECK(names_of(g.graph, cut(g.graph), true).empty());
  g["p"].pin = {.operands = true, .out = true};
  CHECK(names_of(g.graph, cut(g.graph), true) == Names{"p", "q"});
  g["q"].pin = {.operands = false, .out = false};
  CHECK_FAILS(UserError, cut(g.graph),
              "p linear and q linear must have the same types, but are pinned to different ones");
}

TEST_CASE("a product of one type has it in operands and result", "[plan][cut]") {
  const auto types = [](bool one_type, std::int64_t gain) {
    GraphMaker g;
    g.input("x").results = {{.elements = 1}};
    Op& cell = g.op("cell", "lstm", CastRule::lower, {"x"});
    cell.ns = {1000, 1000 - gain};
    cell.one_type = one_type;
    // In 16 bits the result would have to be cast for what reads it.
    cell.results = {{.elements = 1, .storage_ns = 0, .cast_ns = 300}};
    Op& wide = g.op("wide", "linear", CastRule::lower, {"cell"});
    wide.ns = {1000, 1000};
    wide.pin = {.operands = false, .out = false};
    g.op("sum", "sum", CastRule::fp32, {"cell"});  // else it would round early, or not at all
    const Assignment found = cut(g.graph);
    return found[static_cast<std::size_t>(g.at("cell"))];
  };
  CHECK(types(false, 200) == Types{.operands = true, .out = false});
  CHECK(types(true, 200) == Types{.operands = false, .out = false});
  CHECK(types(true, 400) == Types{.operands = true, .out = true});
}

TEST_CASE("reasons tell gain, loss and tie", "[plan][cut]") {
  GraphMaker g;
  g.op("gain", "linear", CastRule::lower, {}).ns = {9, 1};
  g.op("loss", "linear", CastRule::lower, {}).ns = {1, 9};
  g.op("tie", "linear", CastRule::lower, {}).ns = {5, 5};
  g.op("spoiled", "linear", CastRule::lower, {}).ns = {9, 1};
  g.op("incapable", "linear", CastRule::lower, {}).ns = {9, 1};
  g["incapable"].capable = false;
  const Graph graph = without(g.graph, {g.at("spoiled")});
  CHECK(reasons(graph, cut(graph), {}) ==
        std::vector<Why>{Why::gain, Why::loss, Why::tie, Why::accuracy, Why::rule});
}
