// The tf policy: six graphs computed by hand from its passes, and graphs of TensorFlow's tests.
#include "amp/plan/tf_policy.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "amp/plan/pai_policy.h"
#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

using Names = std::vector<std::string>;

// "x | conv A x | add I conv x": names with list and what they read; without a list, an input.
GraphMaker drawn(const std::string& text) {
  GraphMaker g;
  std::istringstream ops(text);
  for (std::string op; std::getline(ops, op, '|');) {
    std::istringstream words(op);
    std::string name, list;
    words >> name >> list;
    if (list.empty()) {
      g.input(name);
      continue;
    }
    std::vector<std::string> reads;
    for (std::string read; words >> read;) reads.push_back(read);
    const std::map<std::string, ListKind> kLists = {{"A", ListKind::allow},
                                                    {"D", ListKind::deny},
                                                    {"I", ListKind::infer},
                                                    {"C", ListKind::clear},
                                                    {"U", ListKind::unlisted}};
    g.painted(name, kLists.at(list), reads);
  }
  return g;
}

// A cast that a framework needs whose ops all want data in their own type: one for each result that a reader
// wants in the other type.
struct EdgeCast {
  int op = -1;
  bool low = false;  // to 16 bits
};

std::vector<EdgeCast> edge_casts(const Graph& graph, const std::vector<bool>& painted) {
  std::vector<std::vector<bool>> wanted;  // by op and result: some reader is of the other type
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    wanted.emplace_back(graph.ops[i].results.size());
    for (const Read& read : graph.ops[i].reads) {
      const auto from = static_cast<std::size_t>(read.op);
      if (read.role == Role::data && painted[i] != painted[from])
        wanted[from][static_cast<std::size_t>(read.result)] = true;
    }
  }
  std::vector<EdgeCast> casts;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t r = 0; r < wanted[i].size(); ++r)
      if (wanted[i][r]) casts.push_back({static_cast<int>(i), !painted[i]});
  return casts;
}

// "x→16"
Names casts_of(const GraphMaker& g, const std::vector<bool>& painted) {
  Names names;
  for (const EdgeCast& cast : edge_casts(g.graph, painted))
    names.push_back(g.graph.at(cast.op).key.path + (cast.low ? "→16" : "→32"));
  return names;
}

struct Painted {
  Names allow, deny, casts;
};

Painted painted(const GraphMaker& g) {
  const AllowDeny found = tf_policy(g.graph, g.lists);
  return {names_of(g.graph, found.allow), names_of(g.graph, found.deny), casts_of(g, found.allow)};
}

const std::string kTail =
    "x | conv1 A x | bn I conv1 | relu1 C bn | conv2 A relu1 | add I conv2 relu1 | relu2 C add | mean D "
    "relu2 |"
    "flat C mean | fc A flat | bias I fc | ce D bias";

}  // namespace

TEST_CASE("colours: what is denied flows on to where nothing was gained", "[plan][colours]") {
  const Painted p =
      painted(drawn("exp D | add I exp | relu C add | sqrt I relu | relu2 C sqrt | mm A relu2 | log I mm"));
  CHECK(p.deny == Names{"exp", "add", "relu", "sqrt"});
  CHECK(p.allow == Names{"relu2", "mm"});
  CHECK(p.casts == Names{"sqrt→16", "mm→32"});
}

TEST_CASE("colours: the tail of a residual network", "[plan][colours]") {
  const Painted p = painted(drawn(kTail));
  CHECK(p.allow == Names{"conv1", "bn", "relu1", "conv2", "flat", "fc"});
  CHECK(p.deny == Names{"mean", "ce"});
  CHECK(p.casts == Names{"x→16", "relu1→32", "conv2→32", "mean→16", "fc→32"});
}

TEST_CASE("colours: attention", "[plan][colours]") {
  const Painted p =
      painted(drawn("h | q A h | scale I q | sm D scale | drop C sm | v A h | av A drop v | o A av"));
  CHECK(p.allow == Names{"q", "drop", "v", "av", "o"});
  CHECK(p.deny == Names{"sm"});
  CHECK(p.casts == Names{"h→16", "q→32", "sm→16"});
}

TEST_CASE("colours: what is on no list stops them", "[plan][colours]") {
  const Painted p = painted(drawn("x | a A x | r C a | u U r | r2 C u | t I r2 | b A t"));
  CHECK(p.allow == Names{"a", "r", "b"});
  CHECK(p.deny.empty());
  CHECK(p.casts == Names{"x→16", "r→32", "t→16"});
}

TEST_CASE("colours: what is fetched is not painted", "[plan][colours]") {
  GraphMaker g = drawn("x | p C x | a A p | y C a | s C p | t C s | i I t");
  g["y"].fetched = true;
  const Painted p = painted(g);
  CHECK(p.allow == Names{"p", "a", "s", "t"});
  CHECK(p.deny.empty());
  CHECK(p.casts == Names{"x→16", "a→32", "t→32"});
}

TEST_CASE("colours: a denied branch denies where it joins", "[plan][colours]") {
  const Painted p = painted(drawn("x | a A x | g I a | e D a | m I g e | r C m | b A r"));
  CHECK(p.allow == Names{"a", "r", "b"});
  CHECK(p.deny == Names{"e", "m"});
  CHECK(p.casts == Names{"x→16", "a→32", "m→16"});
}

TEST_CASE("colours: between painted ops, and on both sides of them", "[plan][colours]") {
  // As TensorFlow's tests Simple and BidirectionalClearChain.
  const Painted simple =
      painted(drawn("x | deny1 D x | clr1 C deny1 | infer1 I clr1 | clr2 C infer1 | allow1 A clr2 | clr3 C "
                    "allow1 | infer2 I clr3 |"
                    "clr4 C infer2 | deny2 D clr4 | clr5 C deny2"));
  CHECK(simple.allow == Names{"clr2", "allow1", "clr3"});
  CHECK(simple.deny == Names{"deny1", "clr1", "infer1", "deny2"});
  CHECK(simple.casts == Names{"infer1→16", "clr3→32"});
  const Painted chain =
      painted(drawn("x | clr1 C x | clr2 C x | mm A clr1 | both C clr1 clr2 | clr4 C clr2"));
  CHECK(chain.allow == Names{"clr1", "clr2", "mm", "both", "clr4"});
  CHECK(chain.casts == Names{"x→16"});
}

TEST_CASE("colours: denial passes several clear ops", "[plan][colours]") {
  const Painted p = painted(drawn("x | e D x | c1 C e | c2 C c1 | i I c2 | mm A i | c3 C mm"));
  CHECK(p.deny == Names{"e", "c1", "c2", "i"});
  CHECK(p.allow == Names{"mm", "c3"});
}

TEST_CASE("colours: incapable ops and pins", "[plan][colours]") {
  // As TensorFlow's tests PreserveCPUNodes and PreserveFetches: denial passes what cannot be painted.
  GraphMaker g = drawn("x | c C x | i I c | mm A i | i2 I mm | mm2 A i2");
  CHECK(painted(g).allow == Names{"mm", "i2", "mm2"});
  g["i2"].capable = false;
  CHECK(painted(g).allow == Names{"mm", "mm2"});
  GraphMaker d = drawn("x | e D x | f I e | s I f | mm A s | t I mm | m2 A t | j I m2 f");
  d["f"].fetched = true;
  CHECK(painted(d).deny == Names{"e", "f", "s", "j"});
  d["mm"].pin.out = false;
  CHECK(painted(d).allow == Names{"m2"});
  d["m2"].pin.operands = false;
  CHECK(painted(d).allow.empty());
  CHECK(painted(d).deny.empty());  // nothing to gain: the graph stays
}

TEST_CASE("colours: data is followed, what is kept is not", "[plan][colours]") {
  GraphMaker g = drawn("x | e D x | bn I x | mm A bn | i I mm | m2 A i");
  g["i"].reads.push_back({g.at("e"), 0, Role::keep});
  CHECK(painted(g).allow == Names{"mm", "i", "m2"});
  g["i"].reads.back().role = Role::data;
  CHECK(painted(g).allow == Names{"mm", "m2"});
  CHECK_FAILS(InternalError, tf_policy(g.graph, std::vector<ListKind>(2)), "2 lists for 6 ops");
}

TEST_CASE("lists follow the cast rules", "[plan][colours]") {
  GraphMaker g;
  g.input("x");
  g.op("conv", "conv2d", CastRule::lower, {});
  g.op("softmax", "softmax", CastRule::fp32, {});
  g.op("bce", "bce_loss", CastRule::banned, {});
  g.op("tanh", "tanh", CastRule::neutral, {});
  g.op("add", "add", CastRule::widest, {});
  g.op("relu", "relu", CastRule::neutral, {});
  g.op("concat", "concat", CastRule::widest, {});
  g.op("cast", "cast", CastRule::none, {});
  using P = ListKind;
  CHECK(op_lists(g.graph) == std::vector<P>{P::unlisted, P::allow, P::deny, P::deny, P::infer, P::infer,
                                            P::clear, P::clear, P::unlisted});
}

TEST_CASE("growth: the tail of a residual network", "[plan][colours]") {
  GraphMaker g;
  g.input("x");
  g.op("conv1", "conv2d", CastRule::lower, {"x"});
  g.op("bn", "batch_norm_train", CastRule::neutral, {"conv1"});
  g.op("relu1", "relu", CastRule::neutral, {"bn"});
  g.op("conv2", "conv2d", CastRule::lower, {"relu1"});
  g.op("add", "add", CastRule::widest, {"conv2", "relu1"});
  g.op("relu2", "relu", CastRule::neutral, {"add"});
  g.op("mean", "mean", CastRule::fp32, {"relu2"});
  g.op("flat", "reshape", CastRule::neutral, {"mean"});
  g.op("fc", "linear", CastRule::lower, {"flat"});
  g.op("bias", "add", CastRule::widest, {"fc"});
  g.op("ce", "cross_entropy", CastRule::fp32, {"bias"});
  CHECK(names_of(g.graph, pai_policy(g.graph)) ==
        Names{"conv1", "bn", "relu1", "conv2", "add", "relu2", "fc", "bias"});
  CHECK(casts_of(g, pai_policy(g.graph)) == Names{"x→16", "relu2→32", "flat→16", "bias→32"});
}

TEST_CASE("growth: sums from any operand, everything else from its first", "[plan][colours]") {
  GraphMaker g;
  g.input("x");
  g.op("p", "linear", CastRule::lower, {"x"});
  g.op("second", "add", CastRule::widest, {"x", "p"});
  g.op("max", "max_pool2d", CastRule::neutral, {"x", "p"});
  g.op("tanh", "tanh", CastRule::neutral, {"p"});
  CHECK(names_of(g.graph, pai_policy(g.graph)) == Names{"p", "second"});
  g["p"].pin.out = false;
  CHECK(names_of(g.graph, pai_policy(g.graph)).empty());
  g["p"].pin.out = std::nullopt;
  g["p"].capable = false;
  CHECK(names_of(g.graph, pai_policy(g.graph)).empty());
  g["tanh"].pin.out = true;
  CHECK(names_of(g.graph, pai_policy(g.graph)) == Names{"tanh"});
}

TEST_CASE("growth: all that a product reaches through growing ops, and no more", "[plan][colours]") {
  Dice dice(11);
  for (int trial = 0; trial < 100; ++trial) {
    const Graph graph = random_graph(dice, 30);
    const std::vector<bool> found = pai_policy(graph);
    std::vector<bool> expected(graph.ops.size());
    for (bool more = true; more;) {  // any order reaches the same
      more = false;
      for (std::size_t i = graph.ops.size(); i-- > 0;) {
        const Op& op = graph.ops[i];
        if (expected[i] || !may_lower(op)) continue;
        bool fed = is_product(op) || op.pin.out.value_or(false);
        for (std::size_t r = 0; r < op.reads.size() && grows(op); ++r)
          fed |= (r == 0 || op.op_kind == OpKind::adds) && expected[static_cast<std::size_t>(op.reads[r].op)];
        if (fed) more = expected[i] = true;
      }
    }
    REQUIRE(found == expected);
  }
}
