// The recurrent module: names, shapes, initial values, errors, dropout, carried states, and saving.
#include "nn/layers/recurrent.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::nn;

namespace {

using Names = std::vector<std::pair<std::string, Shape>>;

Names names_of(Module& module) {
  Names names;
  for (const Parameter& parameter : module.parameters())
    names.emplace_back(parameter.name(), parameter.value().shape());
  return names;
}

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

Tensor lengths_of(const std::vector<std::int64_t>& lengths) {
  return Tensor::from(lengths, {static_cast<Index>(lengths.size())});
}

constexpr RnnCell kCells[] = {RnnCell::lstm, RnnCell::gru, RnnCell::rnn_tanh, RnnCell::rnn_relu};

}  // namespace

TEST_CASE("recurrent layers have PyTorch's names, order and shapes", "[recurrent]") {
  Recurrent lstm(3, 5, {.layers = 2, .bidirectional = true, .projection = 2});
  CHECK(names_of(lstm) == Names{{"weight_ih_l0", {20, 3}},
                                {"weight_hh_l0", {20, 2}},
                                {"bias_ih_l0", {20}},
                                {"bias_hh_l0", {20}},
                                {"weight_hr_l0", {2, 5}},
                                {"weight_ih_l0_reverse", {20, 3}},
                                {"weight_hh_l0_reverse", {20, 2}},
                                {"bias_ih_l0_reverse", {20}},
                                {"bias_hh_l0_reverse", {20}},
                                {"weight_hr_l0_reverse", {2, 5}},
                                {"weight_ih_l1", {20, 4}},
                                {"weight_hh_l1", {20, 2}},
                                {"bias_ih_l1", {20}},
                                {"bias_hh_l1", {20}},
                                {"weight_hr_l1", {2, 5}},
                                {"weight_ih_l1_reverse", {20, 4}},
                                {"weight_hh_l1_reverse", {20, 2}},
                                {"bias_ih_l1_reverse", {20}},
                                {"bias_hh_l1_reverse", {20}},
                                {"weight_hr_l1_reverse", {2, 5}}});
  CHECK(lstm.outputs() == 4);
  Recurrent gru(3, 5, {.cell = RnnCell::gru, .layers = 2, .bias = false});
  CHECK(names_of(gru) == Names{{"weight_ih_l0", {15, 3}},
                               {"weight_hh_l0", {15, 5}},
                               {"weight_ih_l1", {15, 5}},
                               {"weight_hh_l1", {15, 5}}});
  CHECK(gru.outputs() == 5);
  Recurrent plain(3, 5, {.cell = RnnCell::rnn_relu, .bidirectional = true});
  CHECK(plain.parameter_count() == 2 * (15 + 25 + 10));
  CHECK(plain.outputs() == 10);
}

TEST_CASE("recurrent layers start uniform between plus and minus one over the root of their units",
          "[recurrent]") {
  const RandomScope scope(3, 0, 0);
  for (const RnnCell cell : kCells) {
    Recurrent layers(7, 64, {.cell = cell, .layers = 2});
    for (const Parameter& parameter : layers.parameters()) {
      INFO(name_of(cell) << " " << parameter.name());
      const std::vector<float> all = values(parameter.value());
      const auto [low, high] = std::ranges::minmax(all);
      CHECK((low >= -0.125f && low < -0.1f));
      CHECK((high <= 0.125f && high > 0.1f));
    }
  }
}

TEST_CASE("recurrent layers describe themselves", "[recurrent]") {
  CHECK(Recurrent(3, 5).describe() == "Recurrent(lstm, 3 → 5)");
  CHECK(
      Recurrent(3, 5, {.cell = RnnCell::gru, .layers = 2, .bidirectional = true, .bias = false}).describe() ==
      "Recurrent(gru, 3 → 5, 2 layers, both directions, no bias)");
  CHECK(Recurrent(3, 5, {.layers = 3, .projection = 2, .dropout = 0.25}).describe() ==
        "Recurrent(lstm, 3 → 5 → 2, 3 layers, dropout 0.25)");
  CHECK(Recurrent(3, 5, {.cell = RnnCell::rnn_tanh, .recompute = true}).describe() ==
        "Recurrent(rnn_tanh, 3 → 5, recomputed)");
}

TEST_CASE("recurrent layers refuse what they cannot be or take", "[recurrent]") {
  CHECK_THROWS_WITH(Recurrent(0, 5), Catch::Contains("[lstm]") && Catch::Contains("got 0, 5 and 1"));
  CHECK_THROWS_AS(Recurrent(3, 0), UserError);
  CHECK_THROWS_AS(Recurrent(3, 5, {.layers = 0}), UserError);
  CHECK_THROWS_WITH(Recurrent(3, 5, {.cell = RnnCell::gru, .projection = 2}), Catch::Contains("[gru]"));
  CHECK_THROWS_WITH(Recurrent(3, 5, {.projection = 5}), Catch::Contains("got 5 of 5"));
  CHECK_THROWS_AS(Recurrent(3, 5, {.projection = -1}), UserError);
  for (const double probability : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_WITH(Recurrent(3, 5, {.dropout = probability}), Catch::Contains("[0, 1)"));

  Recurrent layers(3, 5, {.layers = 2});
  const Tensor x = test::random_tensor({4, 2, 3});
  CHECK_THROWS_AS(layers(test::random_tensor({4, 2, 4})), UserError);
  CHECK_THROWS_AS(layers(test::random_tensor({4, 3})), UserError);
  CHECK_THROWS_WITH(layers(test::random_tensor({0, 2, 3})), Catch::Contains("no steps"));
  CHECK_THROWS_WITH(layers(x, {.h = Tensor::zeros({1, 2, 5}), .c = {}}), Catch::Contains("[2,N,H]"));
  CHECK_THROWS_WITH(layers(x, {.h = {}, .c = Tensor::zeros({2, 2, 4})}), Catch::Contains("c_0"));
  CHECK_THROWS_WITH(layers(x, {}, lengths_of({4, 5})), Catch::Contains("length 5 of row 1"));
  Recurrent gru(3, 5, {.cell = RnnCell::gru});
  CHECK_THROWS_WITH(gru(x, {.h = {}, .c = Tensor::zeros({1, 2, 5})}),
                    Catch::Contains("only lstm has a cell state"));
}

TEST_CASE("recurrent layers accept zero rows", "[recurrent]") {
  for (const RnnCell cell : kCells) {
    Recurrent layers(3, 5, {.cell = cell, .layers = 2, .bidirectional = true});
    const RnnResult result = layers(Tensor::zeros({4, 0, 3}), {});
    CHECK(result.y.shape() == Shape{4, 0, 10});
    CHECK(result.state.h.shape() == Shape{4, 0, 5});
    backward(sum(result.y));
    for (const Parameter& parameter : layers.parameters())
      CHECK(values(parameter.gradient()) ==
            std::vector<float>(static_cast<std::size_t>(parameter.value().numel()), 0.0f));
  }
}

namespace {

// A relu layer that passes its input on: what leaves the second of two such is the first's output, dropped.
void pass_on(Recurrent& layers) {
  for (const Parameter& parameter : layers.parameters()) {
    float* to = parameter.value().data<float>();
    std::fill_n(to, parameter.value().numel(), 0.0f);
    if (parameter.name().starts_with("weight_ih")) {
      const Index inputs = parameter.value().size(1);
      for (Index i = 0; i < parameter.value().size(0); ++i) to[i * inputs + i] = 1.0f;
    }
    parameter.value().storage()->bump_version();
  }
}

}  // namespace

TEST_CASE("dropout between recurrent layers draws every element and step anew, and spares the last layer",
          "[recurrent]") {
  constexpr Index kSteps = 40, kRows = 3, kUnits = 16;
  constexpr std::size_t kStep = kRows * kUnits;
  const Tensor ones = Tensor::full({kSteps, kRows, kUnits}, 1.0);
  const auto draw = [&](Recurrent& layers, std::uint32_t step) {
    const RandomScope scope(5, step, 0);
    return values(layers(ones));
  };
  Recurrent layers(kUnits, kUnits, {.cell = RnnCell::rnn_relu, .layers = 2, .dropout = 0.25});
  pass_on(layers);
  const std::vector<float> y = draw(layers, 1);
  std::size_t dropped = 0;
  std::set<std::vector<float>> masks;
  for (auto at = y.begin(); at < y.end(); at += kStep) masks.insert({at, at + kStep});
  for (const float value : y) {
    CHECK((value == 0.0f || value == Approx(4.0 / 3.0)));
    dropped += value == 0.0f;
  }
  CHECK(static_cast<double>(dropped) / static_cast<double>(y.size()) == Approx(0.25).margin(0.04));
  CHECK(masks.size() == kSteps);  // no step has another's
  CHECK(draw(layers, 1) == y);    // the same step again
  CHECK(draw(layers, 2) != y);
  layers.eval();
  CHECK(draw(layers, 1) == values(ones));

  Recurrent one(kUnits, kUnits, {.cell = RnnCell::rnn_relu, .dropout = 0.9});
  pass_on(one);
  CHECK(draw(one, 1) == values(ones));
  Recurrent three(kUnits, kUnits, {.cell = RnnCell::rnn_relu, .layers = 3, .dropout = 0.5});
  pass_on(three);
  std::set<float> seen;
  for (const float value : draw(three, 1)) seen.insert(value);
  CHECK(seen == std::set<float>{0.0f, 4.0f});  // two masks, each doubles what it leaves
}

TEST_CASE("gradients meet the mask that dropout drew between recurrent layers", "[recurrent]") {
  Recurrent layers(8, 8, {.cell = RnnCell::rnn_relu, .layers = 2, .dropout = 0.5});
  pass_on(layers);
  const Tensor x = leaf(Tensor::full({5, 2, 8}, 1.0));
  const RandomScope scope(5, 1, 0);
  const Tensor y = layers(x);
  backward(sum(y));
  CHECK(values(gradient_of(x)) == values(y));
}

namespace {

// The bits where a product's sums have one term: of inputs one, and so one layer in one direction. Otherwise
// the product of the inputs of all steps orders its sums by its size.
void check_same(const Tensor& found, const Tensor& expected, bool bits) {
  const std::vector<double> a = found.to_vector<double>(), b = expected.to_vector<double>();
  CHECK(a.size() == b.size());
  if (bits) CHECK((a == b));
  CHECK(test::normalised_error(a, b) <= test::tolerance_of(expected.dtype()).relative);
}

}  // namespace

TEST_CASE("lengths end rows of recurrent layers where shorter sequences would", "[recurrent]") {
  const std::vector<std::int64_t> lengths{3, 6, 0, 1};
  for (const bool single : {true, false}) {
    const Tensor x = test::random_tensor({6, 4, single ? 1 : 3}, DType::f32, 2);
    for (const RnnCell cell : kCells) {
      INFO(name_of(cell) << (single ? ", one input" : ", two layers both ways"));
      Recurrent layers(x.size(2), 5, {.cell = cell, .layers = single ? 1 : 2, .bidirectional = !single});
      layers.eval();
      const RnnResult all = layers(x, {}, lengths_of(lengths));
      for (Index row = 0; row < 4; ++row) {
        const Index length = lengths[static_cast<std::size_t>(row)];
        const auto of_row = [&](const Tensor& t) { return slice(t, 1, row, row + 1); };
        const Tensor beyond = slice(of_row(all.y), 0, length, 6);
        CHECK(values(beyond) == std::vector<float>(static_cast<std::size_t>(beyond.numel()), 0.0f));
        if (length == 0) {
          CHECK(values(of_row(all.state.h)) == std::vector<float>(single ? 5 : 20, 0.0f));
          continue;
        }
        const RnnResult alone = layers(slice(of_row(x), 0, 0, length), {});
        check_same(slice(of_row(all.y), 0, 0, length), alone.y, single);
        check_same(of_row(all.state.h), alone.state.h, single);
        if (cell == RnnCell::lstm) check_same(of_row(all.state.c), alone.state.c, single);
      }
    }
  }
}

TEST_CASE("chunks of a sequence with the state passed on are the whole sequence", "[recurrent]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool single : {true, false}) {
      for (const RnnCell cell : kCells) {
        INFO(name_of(cell) << " " << name_of(dtype) << (single ? ", one input" : ", two layers"));
        Recurrent layers(
            single ? 1 : 33, 70,
            {.cell = cell, .layers = single ? 1 : 2, .projection = cell == RnnCell::lstm ? 21 : 0});
        layers.eval();
        const NoGrad no_grad;
        const Tensor x = test::random_tensor({37, 5, single ? 1 : 33}, dtype, 3);
        const RnnResult whole = layers(x, {});
        RnnState state;
        TensorList y;
        for (const auto& [first, last] : {std::pair<Index, Index>{0, 1}, {1, 17}, {17, 33}, {33, 37}}) {
          const RnnResult chunk = layers(slice(x, 0, first, last), state);
          state = chunk.state;
          y.push_back(chunk.y);
        }
        check_same(concat(y, 0), whole.y, single);
        check_same(state.h, whole.state.h, single);
        if (cell == RnnCell::lstm) check_same(state.c, whole.state.c, single);
      }
    }
  }
}

TEST_CASE("a chunk's gradients stop at the state that was passed on without its edge", "[recurrent]") {
  Recurrent layers(3, 5);
  const Tensor x = leaf(test::random_tensor({4, 2, 3}));
  const RnnResult first = layers(x, {});
  CHECK(first.state.h.requires_grad());
  const RnnState passed{first.state.h.detach(), first.state.c.detach()};
  backward(sum(layers(test::random_tensor({4, 2, 3}, DType::f32, 2), passed).y));
  CHECK_FALSE(gradient_of(x).defined());
}
