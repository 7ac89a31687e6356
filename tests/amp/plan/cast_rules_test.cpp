// Rules that drop, merge and move casts: each on a small graph, and on random ones replayed with and without
// it.
#include "amp/plan/cast_rules.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "amp/plan/pai_policy.h"
#include "amp/plan/tf_policy.h"
#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/amp/plan/typed_values.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

constexpr DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;

// "x:f32 p:bf16 =p>f32 …": nodes with types, casts as what they read.
std::string written(const TypedGraph& graph) {
  std::string text;
  std::vector<std::string> names;
  for (const TypedNode& node : graph.nodes) {
    const std::string type(name_of(node.type));
    if (node.is_cast()) {
      names.push_back(names[static_cast<std::size_t>(node.reads[0].op)] + ">" + type);
      text += " " + names.back();
      continue;
    }
    names.push_back(graph.graph.at(node.op).key.path);
    text += " " + names.back() + ":" + type;
    for (std::size_t r = 0; r < node.reads.size(); ++r)
      text += (r == 0 ? "(" : ",") + names[static_cast<std::size_t>(node.reads[r].op)];
    if (!node.reads.empty()) text += ")";
  }
  return text.substr(std::min<std::size_t>(1, text.size()));
}

// Nodes by hand: for what no assignment makes.
class Hand {
 public:
  int input(const std::string& name, DType type, bool gradient = true) {
    maker_.input(name).results = {{.elements = 8, .gradient = gradient}};
    return add({.op = maker_.at(name), .type = type});
  }
  int cast(int node, DType type) { return add({.reads = {{node, 0, Role::data}}, .type = type}); }
  int op(const std::string& name, const std::string& op_name, CastRule rule, const std::vector<int>& reads,
         DType type) {
    std::vector<Read> of;
    TypedNode node{.type = type};
    for (const int read : reads) {
      int source = read;
      while (nodes_[static_cast<std::size_t>(source)].is_cast())
        source = nodes_[static_cast<std::size_t>(source)].reads[0].op;
      of.push_back({nodes_[static_cast<std::size_t>(source)].op, 0, Role::data});
      node.reads.push_back({read, 0, Role::data});
    }
    Op& made = maker_.op(name, op_name, rule, {}, {});
    made.reads = of;
    made.results = {{.elements = 8}};
    node.op = maker_.at(name);
    return add(node);
  }
  Op& operator[](const std::string& name) { return maker_[name]; }
  TypedGraph graph() const { return {.graph = maker_.graph, .nodes = nodes_}; }

 private:
  struct Maker : GraphMaker {
    Op& op(const std::string& name, const std::string& op_name, CastRule rule,
           const std::vector<std::string>& reads, int) {
      return GraphMaker::op(name, op_name, rule, reads);
    }
  };
  int add(TypedNode node) {
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }

  Maker maker_;
  std::vector<TypedNode> nodes_;
};

// "2 kernels, 1 store": what is not 0.
std::string shown(const CastCount& count) {
  std::string text;
  const std::pair<int, const char*> parts[] = {
      {count.kernels, "kernels"}, {count.stores, "stores"}, {count.copies, "copies"}, {count.once, "once"}};
  for (const auto& [number, what] : parts)
    if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, what);
  return text;
}

template <class T>
T of_bits(std::uint32_t bits) {
  return {static_cast<std::uint16_t>(bits)};
}

// All values of a 16-bit type by way of `Middle` to the type itself and to the other one.
template <class T, class Other>
void check_all_patterns() {
  int differing = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const T value = of_bits<T>(bits);
    const float wide = widen(value);
    const T back = convert<T>(wide);
    if (std::isnan(wide)) {
      differing += !std::isnan(widen(back)) || !std::isnan(widen(convert<Other>(wide)));
      continue;
    }
    differing += back.bits != value.bits;
    differing += convert<Other>(convert<double>(value)).bits != convert<Other>(wide).bits;
  }
  CHECK(differing == 0);
}

}  // namespace

TEST_CASE("16 bits, f32 and 16 bits again are what they were: all patterns", "[plan][casts]") {
  check_all_patterns<Half, BFloat16>();
  check_all_patterns<BFloat16, Half>();
}

TEST_CASE("which pairs of casts are one", "[plan][casts]") {
  for (const DType low : {f16, bf16}) {
    CHECK(may_fold(low, f32, low));
    CHECK(may_fold(low, f32, low == f16 ? bf16 : f16));
    CHECK_FALSE(may_fold(f32, low, f32));  // it is a rounding
    CHECK_FALSE(may_fold(low, low == f16 ? bf16 : f16, low));
  }
  CHECK_FALSE(may_fold(f32, f16, bf16));
  CHECK(may_fold(f32, DType::f64, bf16));
  CHECK_FALSE(may_fold(DType::f64, f32, bf16));
  CHECK_FALSE(may_fold(f32, DType::i32, f32));
  // 1 + 2⁻⁸ + 2⁻¹² by way of f16, and directly.
  const float value = 1.0f + 0x1p-8f + 0x1p-12f;
  CHECK(stored(stored(value, f16), bf16) == 1.0f);
  CHECK(stored(value, bf16) == 1.0078125f);
}

TEST_CASE("constants that a type holds", "[plan][casts]") {
  CHECK(is_representable(0.0, bf16));
  CHECK(is_representable(65504.0, f16));
  CHECK_FALSE(is_representable(65505.0, f16));
  CHECK_FALSE(is_representable(-1e9, f16));
  CHECK_FALSE(is_representable(0.1, f32));
  CHECK(is_representable(0.1, DType::f64));
  CHECK(is_representable(std::numeric_limits<double>::infinity(), f16));
  CHECK(is_representable(std::numeric_limits<double>::quiet_NaN(), bf16));
  CHECK_FALSE(is_representable(1.0, DType::i32));
}

TEST_CASE("products take their operands in one type", "[plan][casts]") {
  const GraphMaker g = block();
  Assignment types(g.graph.ops.size());
  types[static_cast<std::size_t>(g.at("q"))] = {true, true};
  types[static_cast<std::size_t>(g.at("av"))] = {false, false};
  types[static_cast<std::size_t>(g.at("v"))] = {true, true};
  CHECK(written(typed(g.graph, types, bf16)) ==
        "wq:f32 wv:f32 wh:f32 e:f32 l:f32(e) l>bf16 wq>bf16 q:bf16(l>bf16,wq>bf16) l>bf16 wv>bf16 "
        "v:bf16(l>bf16,wv>bf16) "
        "s:f32(q) sm:f32(s) v>f32 av:f32(sm,v>f32) a:f32(av,e) h:f32(a,wh) m:f32(a) loss:f32(h,m)");
  CHECK_FAILS(InternalError, typed(g.graph, types, f32), "expected f16 or bf16");
}

TEST_CASE("operands have the type of the product, not of its result", "[plan][casts]") {
  GraphMaker g;
  g.input("x");
  g.op("p", "linear", CastRule::lower, {"x"});
  CHECK(written(typed(g.graph, {{}, {.operands = true, .out = false}}, f16)) == "x:f32 x>f16 p:f32(x>f16)");
  CHECK(written(typed(g.graph, {{}, {.operands = false, .out = true}}, f16)) == "x:f32 p:f16(x)");
}

TEST_CASE("casts of one tensor to one type are one", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", f32);
  g.op("p", "linear", CastRule::lower, {g.cast(x, bf16)}, bf16);
  g.op("q", "linear", CastRule::lower, {g.cast(x, bf16)}, bf16);
  g.op("r", "linear", CastRule::lower, {g.cast(x, f16)}, f16);
  CHECK(count_casts(g.graph()).kernels == 3);
  CHECK(written(share_casts(g.graph())) == "x:f32 x>bf16 p:bf16(x>bf16) q:bf16(x>bf16) x>f16 r:f16(x>f16)");
}

TEST_CASE("a pair of casts goes, unless something else reads its middle", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", bf16);
  const int wide = g.cast(x, f32);
  g.op("p", "linear", CastRule::lower, {g.cast(wide, bf16)}, bf16);
  CHECK(written(fold_casts(g.graph())) == "x:bf16 p:bf16(x)");
  g.op("n", "norm", CastRule::fp32, {wide}, f32);
  CHECK(fold_casts(g.graph()) == in_order(g.graph()));
  g["x"].results[0].gradient = false;
  CHECK(written(fold_casts(g.graph())) == "x:bf16 p:bf16(x) x>f32 n:f32(x>f32)");
}

TEST_CASE("a pair of casts stays where its readers' gradients would meet others", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", bf16);
  const int back = g.cast(g.cast(x, f32), bf16);
  g.op("p", "linear", CastRule::lower, {back}, bf16);
  g.op("q", "linear", CastRule::lower, {back}, bf16);
  CHECK(count_casts(fold_casts(g.graph())).kernels == 0);
  g.op("r", "norm", CastRule::neutral, {x}, bf16);
  CHECK(count_casts(fold_casts(g.graph())).kernels == 2);
}

TEST_CASE("a rounding stays, and a detour by f32 is one cast", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", f32);
  g.op("n", "norm", CastRule::fp32, {g.cast(g.cast(x, bf16), f32)}, f32);
  CHECK(count_casts(fold_casts(g.graph())).kernels == 2);
  Hand h;
  const int y = h.input("y", f16);
  h.op("p", "linear", CastRule::lower, {h.cast(h.cast(y, f32), bf16)}, bf16);
  CHECK(written(fold_casts(h.graph())) == "y:f16 y>bf16 p:bf16(y>bf16)");
  Hand narrow;
  const int z = narrow.input("z", f32);
  narrow.op("p", "linear", CastRule::lower, {narrow.cast(narrow.cast(z, f16), bf16)}, bf16);
  CHECK(count_casts(fold_casts(narrow.graph())).kernels == 2);
}

TEST_CASE("a cast moves to where fewer values are cast", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", f32);
  const int slice = g.op("slice", "slice", CastRule::neutral, {g.cast(x, bf16)}, bf16);
  g.op("p", "linear", CastRule::lower, {slice}, bf16);
  CHECK(move_exact_casts(g.graph()) == in_order(g.graph()));  // as many
  g["slice"].results[0].elements = 4;
  CHECK(written(move_exact_casts(g.graph())) == "x:f32 slice:f32(x) slice>bf16 p:bf16(slice>bf16)");
  CHECK(move_exact_casts(move_exact_casts(g.graph())) == move_exact_casts(g.graph()));

  Hand pad;
  const int y = pad.input("y", f32);
  const int padded = pad.op("pad", "pad", CastRule::neutral, {y}, f32);
  pad["pad"].results[0].elements = 9;
  pad.op("p", "linear", CastRule::lower, {pad.cast(padded, f16)}, f16);
  CHECK(written(move_exact_casts(pad.graph())) == "y:f32 y>f16 pad:f16(y>f16) p:f16(pad)");
  pad["pad"].pad_value = -1e9;
  CHECK(move_exact_casts(pad.graph()) == in_order(pad.graph()));
}

TEST_CASE("a cast moves to where the op moves 16 bits", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", f32);
  const int flip = g.op("flip", "flip", CastRule::neutral, {x}, f32);
  g.op("p", "linear", CastRule::lower, {g.cast(flip, bf16)}, bf16);
  CHECK(written(move_exact_casts(g.graph())) == "x:f32 x>bf16 flip:bf16(x>bf16) p:bf16(flip)");
  g.op("n", "norm", CastRule::fp32, {flip}, f32);  // wants it in f32
  CHECK(move_exact_casts(g.graph()) == in_order(g.graph()));

  Hand h;
  const int y = h.input("y", bf16);
  const int back = h.op("flip", "flip", CastRule::neutral, {h.cast(y, f32)}, f32);
  h.op("p", "linear", CastRule::lower, {back}, f32);
  CHECK(written(move_exact_casts(h.graph())) == "y:bf16 flip:bf16(y) flip>f32 p:f32(flip>f32)");
}

TEST_CASE("a cast passes a concatenation, and pairs meet", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", bf16), y = g.input("y", f32);
  const int joined = g.op("concat", "concat", CastRule::widest, {g.cast(x, f32), y}, f32);
  g["concat"].results[0].elements = 16;
  g.op("p", "linear", CastRule::lower, {g.cast(joined, bf16)}, bf16);
  CHECK(written(fold_casts(move_exact_casts(g.graph()))) ==
        "x:bf16 y:f32 y>bf16 concat:bf16(x,y>bf16) p:bf16(concat)");
}

TEST_CASE("past ReLU, maxima and broadcasts only where no gradient flows", "[plan][casts]") {
  const std::pair<const char*, std::int64_t> ops[] = {{"relu", 8}, {"abs", 8}, {"broadcast_to", 16}};
  for (const auto& [name, elements] : ops) {
    Hand g;
    const int x = g.input("x", f32);
    const int op = g.op(name, name, CastRule::neutral, {x}, f32);
    g[name].results[0].elements = elements;
    g.op("p", "linear", CastRule::lower, {g.cast(op, bf16)}, bf16);
    CHECK(move_exact_casts(g.graph()) == in_order(g.graph()));
    CHECK(move_forward_casts(g.graph()) == in_order(g.graph()));
    g[name].results[0].gradient = false;
    CHECK(written(move_forward_casts(g.graph())) ==
          fmt::format("x:f32 x>bf16 {0}:bf16(x>bf16) p:bf16({0})", name));
  }
  Hand g;
  const int x = g.input("x", f32, false);
  const int max = g.op("max", "max", CastRule::neutral, {g.cast(x, bf16)}, bf16);
  g["max"].results[0] = {.elements = 4, .gradient = false};
  g.op("p", "linear", CastRule::lower, {max}, bf16);
  CHECK(written(move_forward_casts(g.graph())) == "x:f32 max:f32(x) max>bf16 p:bf16(max>bf16)");
  CHECK(!keeps_values(g["p"].op_kind));
  // What gradients pass as well is of the other rule.
  Hand exact;
  const int neg = exact.op("neg", "neg", CastRule::neutral, {exact.input("x", f32, false)}, f32);
  exact["neg"].results[0].gradient = false;
  exact.op("p", "linear", CastRule::lower, {exact.cast(neg, bf16)}, bf16);
  CHECK(move_forward_casts(exact.graph()) == in_order(exact.graph()));
  CHECK_FALSE(move_exact_casts(exact.graph()) == in_order(exact.graph()));
}

TEST_CASE("a cast is made by the store of its producer", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", f32);
  const int norm = g.op("norm", "norm", CastRule::fp32, {x}, f32);
  const int cast = g.cast(norm, bf16);
  g.op("p", "linear", CastRule::lower, {cast}, bf16);
  g.op("q", "linear", CastRule::lower, {cast}, bf16);
  const TypedGraph stored = store_casts(g.graph());
  CHECK(written(stored) == "x:f32 norm:bf16(x) p:bf16(norm) q:bf16(norm)");
  CHECK(shown(count_casts(stored)) == "1 stores");
  const auto stays = [&](const std::function<void(Op&)>& change) {
    Hand other = g;
    change(other["norm"]);
    return store_casts(other.graph()) == in_order(other.graph());
  };
  CHECK(stays([](Op& op) { op.keeps_output = true; }));
  CHECK(stays([](Op& op) { op.capable = false; }));
  CHECK(stays([](Op& op) { op.fetched = true; }));
  CHECK(stays([](Op& op) { op.pin.out = false; }));
  Hand other = g;
  other.op("n", "norm", CastRule::fp32, {norm}, f32);
  CHECK(store_casts(other.graph()) == in_order(other.graph()));
  Hand third = g;
  third.op("n", "norm", CastRule::neutral, {cast}, bf16);  // reads the rounded values, and is no product
  CHECK(store_casts(third.graph()) == in_order(third.graph()));
}

TEST_CASE("a widening is made by the load of its reader", "[plan][casts]") {
  Hand g;
  const int x = g.input("x", bf16);
  const int wide = g.cast(x, f32);
  g.op("n", "norm", CastRule::fp32, {wide}, f32);
  CHECK(written(load_casts(g.graph())) == "x:bf16 n:f32(x)");
  g.op("m", "norm", CastRule::fp32, {wide}, f32);
  CHECK(load_casts(g.graph()) == in_order(g.graph()));  // gradients would be rounded before they are added
  g["x"].results[0].gradient = false;
  CHECK(count_casts(load_casts(g.graph())).kernels == 0);
  Hand h;
  h.op("p", "linear", CastRule::lower, {h.cast(h.input("x", bf16), f32)}, f32);
  CHECK(load_casts(h.graph()) == in_order(h.graph()));
  Hand narrow;
  narrow.op("n", "norm", CastRule::fp32, {narrow.cast(narrow.input("x", f32), bf16)}, f32);
  CHECK(load_casts(narrow.graph()) == in_order(narrow.graph()));
}

TEST_CASE("casts of parameters and of what the step is given", "[plan][casts]") {
  GraphMaker g;
  g.input("x").results = {{.elements = 8, .gradient = false}};
  g.parameter("w").results = {{.elements = 8}};
  g.op("p", "linear", CastRule::lower, {"x", "w"});
  g.op("q", "linear", CastRule::lower, {"x", "w"});
  Assignment types(4);
  types[2] = types[3] = {true, true};
  const TypedGraph made = typed(g.graph, types, bf16);
  CHECK(shown(count_casts(made)) == "4 kernels");
  CHECK(shown(count_casts(hoist_parameter_casts(made))) == "2 kernels, 1 copies");
  CHECK(shown(count_casts(without_needless_casts(made))) == "1 copies, 1 once");
  CHECK(shown(count_casts(without_needless_casts(made, false))) == "1 copies, 1 once");
  g["x"].results[0].gradient = true;
  CHECK(shown(count_casts(without_needless_casts(typed(g.graph, types, bf16), false))) ==
        "2 kernels, 1 copies");
}

TEST_CASE("casts of the tail of a residual network, before and after", "[plan][casts]") {
  GraphMaker g;
  g.input("x").results = {{.elements = 8, .gradient = false}};
  g.op("conv1", "conv2d", CastRule::lower, {"x"});
  g.op("bn", "batch_norm_train", CastRule::neutral, {"conv1"});
  g.op("relu1", "relu", CastRule::neutral, {"bn"});
  g.op("conv2", "conv2d", CastRule::lower, {"relu1"});
  g.op("add", "add", CastRule::widest, {"conv2", "relu1"});
  g.op("mean", "mean", CastRule::fp32, {"add"});
  g.op("flat", "reshape", CastRule::neutral, {"mean"}).view = true;
  g.op("fc", "linear", CastRule::lower, {"flat"});
  g.op("ce", "cross_entropy", CastRule::fp32, {"fc"});
  const std::vector<bool> painted = tf_policy(g.graph, paints(g.graph)).allow;
  const TypedGraph before = share_casts(typed_edges(g.graph, painted, bf16));
  CHECK(count_casts(before).kernels == static_cast<int>(edge_casts(g.graph, painted).size()));
  CHECK(count_casts(before).kernels == 5);
  const TypedGraph after = without_needless_casts(typed_edges(g.graph, painted, bf16));
  CHECK(shown(count_casts(after)) == "1 stores, 1 once");  // the mean's result, and the image
}

namespace {

// A chain of ops on short vectors, some of which are 16-bit, with casts wherever types differ and more.
TypedGraph random_typed(Dice& dice, bool gradient) {
  const char* const moving[] = {"flip", "neg", "slice", "split", "concat", "pad",         "norm",
                                "exp",  "add", "relu",  "abs",   "max",    "broadcast_to"};
  GraphMaker g;
  g.input("x").results = {{.elements = 8, .gradient = gradient}};
  g.parameter("w").results = {{.elements = 4, .gradient = gradient}};
  struct Made {
    Read read;
    std::int64_t elements;
  };
  std::vector<Made> made = {{{0, 0, Role::data}, 8}};
  for (int i = 0; i < 12; ++i) {
    const Made from = made[static_cast<std::size_t>(dice.below(static_cast<int>(made.size())))];
    const std::string name = "op" + std::to_string(i);
    std::string op_name = dice.one_in(3) ? "linear" : moving[dice.below(13)];
    if (from.elements < 4 && (op_name == "slice" || op_name == "split" || op_name == "max")) op_name = "flip";
    if (from.elements > 16) op_name = "slice";
    const CastRule rule = op_name == "linear"                     ? CastRule::lower
                          : op_name == "norm" || op_name == "exp" ? CastRule::fp32
                                                                  : CastRule::neutral;
    Op& op = g.op(name, op_name, rule, {});
    op.reads = {from.read};
    op.keeps_output = op_name == "exp";
    std::int64_t elements = from.elements;
    if (op_name == "slice" || op_name == "split" || op_name == "max") elements /= 2;
    if (op_name == "broadcast_to") elements *= 2;
    if (op_name == "pad") ++elements;
    if (op_name == "pad") op.pad_value = dice.one_in(2) ? 0.0 : 0.1;
    if (op_name == "linear") op.reads.push_back({1, 0, Role::data});
    if (op_name == "add") op.reads.push_back(from.read);
    if (op_name == "concat") {
      const Made second = made[static_cast<std::size_t>(dice.below(static_cast<int>(made.size())))];
      op.reads.push_back(second.read);
      elements += second.elements;
    }
    op.results.assign(op_name == "split" ? 2 : 1, {.elements = elements, .gradient = gradient});
    if (op_name == "split") op.results[1].elements = from.elements - elements;
    for (std::size_t r = 0; r < op.results.size(); ++r)
      made.push_back({{g.graph.count() - 1, static_cast<int>(r), Role::data}, op.results[r].elements});
  }
  const int count = g.graph.count();
  for (int i = 0; i < count; ++i)
    for (std::size_t r = 0; r < g.graph.at(i).results.size(); ++r)
      if (dice.one_in(2) || i == count - 1) {
        const std::int64_t elements = g.graph.at(i).results[r].elements;
        Op& end = g.op("end" + std::to_string(g.graph.count()), "end", CastRule::fp32, {});
        end.reads = {{i, static_cast<int>(r), Role::data}};
        end.results = {{.elements = elements, .gradient = gradient}};
      }
  std::vector<bool> low;
  for (const Op& op : g.graph.ops) low.push_back(op.kind == Kind::op && op.key.op != "end" && dice.one_in(2));
  return typed_edges(g.graph, low, dice.one_in(2) ? bf16 : f16);
}

using Rule = TypedGraph (*)(TypedGraph);

// How often a rule changed something; every value is as before, and every gradient where `exact`.
int replay(Rule rule, bool exact, bool gradient, const std::function<TypedGraph(TypedGraph)>& first,
           std::uint64_t seed) {
  Dice dice(seed);
  int changed = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const TypedGraph before = first(random_typed(dice, gradient));
    const TypedGraph after = rule(before);
    const CastCount had = count_casts(before), has = count_casts(after);
    CAPTURE(trial, written(before), written(after));
    changed += !(after == before);
    const TypedValues old_values(before), new_values(after);
    REQUIRE(new_values.outcomes() == old_values.outcomes());
    if (exact && gradient) REQUIRE(new_values.gradients() == old_values.gradients());
    CAPTURE(written(rule(after)));
    REQUIRE(rule(after) == after);
    if (rule != move_exact_casts && rule != move_forward_casts) REQUIRE(has.kernels <= had.kernels);
  }
  return changed;
}

TypedGraph as_it_is(TypedGraph graph) { return graph; }

}  // namespace

TEST_CASE("rules keep every value, and gradients unless they say otherwise", "[plan][casts]") {
  CHECK(replay(fold_casts, true, true, move_exact_casts, 20) > 20);
  CHECK(replay(move_exact_casts, true, true, as_it_is, 21) > 100);
  CHECK(replay(move_exact_casts, true, true, share_casts, 22) > 100);
  CHECK(replay(store_casts, true, true, as_it_is, 23) > 20);
  CHECK(replay(store_casts, true, true, share_casts, 24) > 20);
  CHECK(replay(load_casts, true, true, as_it_is, 25) > 100);
  CHECK(replay(share_casts, false, true, as_it_is, 26) > 100);
  CHECK(replay(hoist_parameter_casts, false, true, as_it_is, 27) > 100);
  CHECK(replay(move_forward_casts, true, true, as_it_is, 28) == 0);
}

TEST_CASE("rules keep every value where no gradient flows", "[plan][casts]") {
  CHECK(replay(fold_casts, true, false, share_casts, 30) >= 0);
  CHECK(replay(move_forward_casts, true, false, as_it_is, 31) > 50);
  CHECK(replay(move_exact_casts, true, false, as_it_is, 32) > 100);
  CHECK(replay(load_casts, true, false, share_casts, 33) > 100);
  CHECK(replay(keep_constant_casts, true, false, as_it_is, 34) > 100);
  CHECK(replay([](TypedGraph graph) { return without_needless_casts(std::move(graph)); }, true, false,
               as_it_is, 35) > 300);
}
