// Graphs for tests of the planner: made op by op under short names, the examples of its literature, random
// ones.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "amp/plan/graph.h"
#include "amp/plan/tf_policy.h"
#include "autograd/ops/all_ops.h"

namespace tandem::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }
  bool one_in(int count) { return below(count) == 0; }

 private:
  std::mt19937_64 engine_;
};

// Ops are known by their path.
class GraphMaker {
 public:
  amp::plan::Op& input(const std::string& name) {
    return add(name, "", CastRule::none, {}, amp::plan::Kind::input);
  }
  amp::plan::Op& parameter(const std::string& name) {
    return add(name, "", CastRule::none, {}, amp::plan::Kind::parameter);
  }
  amp::plan::Op& op(const std::string& name, const std::string& op, CastRule rule,
                    const std::vector<std::string>& reads) {
    return add(name, op, rule, reads, amp::plan::Kind::op);
  }
  // One that stands on a list, whatever it computes.
  void painted(const std::string& name, amp::plan::ListKind paint, const std::vector<std::string>& reads) {
    const bool product = paint == amp::plan::ListKind::allow;
    add(name, name, product ? CastRule::lower : CastRule::neutral, reads, amp::plan::Kind::op);
    lists.resize(graph.ops.size(), amp::plan::ListKind::unlisted);
    lists.back() = paint;
  }

  int at(const std::string& name) const { return places.at(name); }
  amp::plan::Op& operator[](const std::string& name) { return graph.ops[static_cast<std::size_t>(at(name))]; }

  amp::plan::Graph graph;
  std::vector<amp::plan::ListKind> lists;
  std::map<std::string, int> places;

 private:
  amp::plan::Op& add(const std::string& name, const std::string& op, CastRule rule,
                     const std::vector<std::string>& reads, amp::plan::Kind kind) {
    amp::plan::Op made{.key = {name, op}, .kind = kind, .rule = rule, .results = {amp::plan::Result{}}};
    if (const OpInfo* const info = find_op(op)) made.op_kind = info->traits.kind;
    for (const std::string& read : reads) made.reads.push_back({at(read), 0, Role::data});
    places[name] = graph.count();
    graph.ops.push_back(std::move(made));
    lists.resize(graph.ops.size(), amp::plan::ListKind::unlisted);
    return graph.ops.back();
  }
};

// e = embedding; l = layer norm(e); q, v = linear(l); s = scaled q; sm = softmax(s); av = matmul(sm, v); a =
// av + e; h = linear(a); m = mean(a); loss(h, m). Activations of a million elements at 1 MB/µs, casts of 5
// µs; prices by hand.
inline GraphMaker block() {
  using namespace amp::plan;
  constexpr std::int64_t us = 1000;
  GraphMaker g;
  for (const char* name : {"wq", "wv", "wh"})
    g.parameter(name).results = {{.elements = 250'000, .cast_ns = us / 2}};
  g.op("e", "embedding", CastRule::neutral, {});
  g.op("l", "layer_norm", CastRule::fp32, {"e"});
  g.op("q", "linear", CastRule::lower, {"l", "wq"}).ns = {40 * us, 12 * us};
  g.op("v", "linear", CastRule::lower, {"l", "wv"}).ns = {40 * us, 12 * us};
  g.op("s", "mul_scalar", CastRule::neutral, {"q"});
  g.op("sm", "softmax", CastRule::fp32, {"s"}).keeps_output = true;
  g.op("av", "matmul", CastRule::lower, {"sm", "v"}).ns = {30 * us, 14 * us};
  g.op("a", "add", CastRule::widest, {"av", "e"});
  g.op("h", "linear", CastRule::lower, {"a", "wh"}).ns = {20 * us, 18 * us};
  g.op("m", "mean", CastRule::fp32, {"a"});
  g.op("loss", "mse_loss", CastRule::fp32, {"h", "m"});
  const std::map<std::string, int> storage = {{"e", 12}, {"q", 8}, {"s", 8},  {"av", 8}, {"a", 8},
                                              {"h", 8},  {"l", 4}, {"sm", 4}, {"v", 4}};
  for (const auto& [name, cost] : storage)
    g[name].results = {{.elements = 1'000'000, .storage_ns = cost * us, .cast_ns = 22 * us}};
  return g;
}

// Names of the ops whose result, or with `operands` whose operands, are 16-bit.
inline std::vector<std::string> names_of(const amp::plan::Graph& graph,
                                         const amp::plan::Assignment& assignment, bool operands = false) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    if (operands ? assignment[i].operands : assignment[i].out) names.push_back(graph.ops[i].key.path);
  return names;
}

inline std::vector<std::string> names_of(const amp::plan::Graph& graph, const std::vector<bool>& set) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i]) names.push_back(graph.ops[i].key.path);
  return names;
}

// Number of decisions: results of ops that are no views, and operands of products.
inline int decisions_of(const amp::plan::Graph& graph) {
  int count = 0;
  for (const amp::plan::Op& op : graph.ops)
    count +=
        (op.kind == amp::plan::Kind::op && !op.view) + (op.kind == amp::plan::Kind::op && is_product(op));
  return count;
}

// Ops of every kind with small integer prices, so that ties happen, and at most `most` decisions.
inline amp::plan::Graph random_graph(Dice& dice, int most) {
  using namespace amp::plan;
  GraphMaker g;
  g.input("x").results = {{.elements = 8, .gradient = false, .storage_ns = 0, .cast_ns = dice.below(4)}};
  g.parameter("w").results = {{.elements = 8, .storage_ns = 0, .cast_ns = dice.below(3)}};
  std::vector<std::string> names = {"x"};
  for (int i = 0; decisions_of(g.graph) < most - 1; ++i) {
    const std::string name = "op" + std::to_string(i);
    std::vector<std::string> reads = {
        names[static_cast<std::size_t>(dice.below(static_cast<int>(names.size())))]};
    const auto more = [&] {
      reads.push_back(names[static_cast<std::size_t>(dice.below(static_cast<int>(names.size())))]);
    };
    const auto prices = [&](Op& op) {
      op.results = {{.elements = 8, .storage_ns = dice.below(6), .cast_ns = dice.below(6)}};
      op.capable = !dice.one_in(15);
      op.fetched = dice.one_in(20);
      op.keeps_output = dice.one_in(4);
      if (dice.one_in(10)) op.pin.out = dice.one_in(2);
      if (is_product(op) && dice.one_in(10)) op.pin.operands = dice.one_in(2);
    };
    switch (dice.below(7)) {
      case 0:
      case 1:
      case 2: {
        if (dice.one_in(2)) more();
        if (dice.one_in(2)) reads.push_back("w");
        Op& op = g.op(name, "linear", CastRule::lower, reads);
        op.ns = {dice.below(12), dice.below(12)};
        if (dice.one_in(3)) op.widening_ns = dice.below(8);
        prices(op);
        break;
      }
      case 3:
        prices(g.op(name, "exp", CastRule::fp32, reads));
        break;
      case 4:
        more();
        prices(g.op(name, "add", CastRule::widest, reads));
        break;
      case 5:
        prices(g.op(name, "tanh", CastRule::neutral, reads));
        break;
      default: {
        if (reads[0] == "x") continue;
        Op& op = g.op(name, "reshape", CastRule::neutral, reads);
        op.view = true;
        op.results = {{.elements = 8, .storage_ns = dice.below(3), .cast_ns = dice.below(6)}};
        break;
      }
    }
    names.push_back(name);
  }
  return std::move(g.graph);
}

}  // namespace tandem::test
