// Precision by layer in modules called with explicit types, by name, or for several outputs.
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/elementwise.h"
#include "nn/layers.h"
#include "tests/support/tensors.h"

using namespace tandem;
using test::random_tensor;

namespace {

struct Pair {
  Tensor left, right;
};

class Twin final : public nn::Module {
 public:
  Twin()
      : left_(add_child("left", std::make_shared<nn::Linear>(4, 4))),
        right_(add_child("right", std::make_shared<nn::Linear>(4, 4))) {}
  Pair operator()(const Pair& x) {
    return observed([&] { return Pair{(*left_)(x.left), (*right_)(x.right)}; });
  }

 private:
  std::shared_ptr<nn::Linear> left_, right_;
};

amp::Precision by_layer(const char* match) {
  amp::Precision precision{.level = amp::Level::O1, .dtype = DType::bf16};
  precision.layers = {{match, DType::f32}};
  return precision;
}

}  // namespace

TEST_CASE("layers of a typed module run in the precision that their paths ask for", "[typed]") {
  const auto twin = std::make_shared<Twin>();
  const Tensor x = random_tensor({2, 4});
  const auto types = [&](const char* match) {
    const amp::ResolvedPrecision plan(by_layer(match), *twin);
    const amp::Autocast autocast(plan);
    const Pair y = (*twin)({x, x});
    return std::pair{y.left.dtype(), y.right.dtype()};
  };
  CHECK(types("^left") == std::pair{DType::f32, DType::bf16});
  CHECK(types("right$") == std::pair{DType::bf16, DType::f32});
}

TEST_CASE("precision by layer holds in graphs called by name and for layers of several outputs", "[typed]") {
  nn::Graph graph({"a", "b"});
  const int up = graph.add("up", std::make_shared<nn::Linear>(4, 8), {nn::Graph::kInput});
  const int halves = graph.add("halves", std::make_shared<nn::Split>(std::vector<Index>{4, 4}), {up});
  const int down = graph.add("down", std::make_shared<nn::Linear>(4, 2), {nn::Graph::Source(halves, 1)});
  const int other = graph.add("other", std::make_shared<nn::Linear>(4, 2), {nn::Graph::input(1)});
  graph.set_outputs({{"half", {halves, 0}}, {"down", down}, {"other", other}});
  const amp::ResolvedPrecision plan(by_layer("^down"), graph);
  const amp::Autocast autocast(plan);
  const Tensor x = random_tensor({2, 4});
  const nn::NamedTensors y = graph({{"a", x}, {"b", x}});
  CHECK(y.at("half").dtype() == DType::bf16);
  CHECK(y.at("down").dtype() == DType::f32);
  CHECK(y.at("other").dtype() == DType::bf16);
}
