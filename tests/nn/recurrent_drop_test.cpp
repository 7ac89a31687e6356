// Recurrent layers of AWD-LSTM: weight dropout, locked masks, a last layer of different size. Each against
// the op with given weights and masks.
#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/layers/recurrent.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::nn;

namespace {

constexpr Index kSteps = 4, kRows = 3, kInputs = 3, kUnits = 5;

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

RnnWeights weights_of(Module& module, std::size_t layer) {
  const std::vector<Parameter> all = module.parameters();
  return {all[4 * layer].tensor(),
          all[4 * layer + 1].tensor(),
          all[4 * layer + 2].tensor(),
          all[4 * layer + 3].tensor(),
          {}};
}

// Products of other numbers of rows add up in another order.
void check_close(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = values(a), y = values(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(static_cast<double>(x[i]) == Approx(static_cast<double>(y[i])).epsilon(1e-5).margin(1e-6));
}

Tensor some_input() { return test::random_tensor({kSteps, kRows, kInputs}); }

}  // namespace

TEST_CASE("dropped weights of what recurs are those of one mask, and so is their gradient", "[recurrent]") {
  constexpr double kDropped = 0.4;
  Recurrent layer(kInputs, kUnits, {.weight_dropout = kDropped});
  const Parameter weight_hh = layer.parameters()[1];
  const Tensor x = some_input();
  Tensor mask;
  {
    const RandomScope random(7, 2, 1);
    mask = dropout(Tensor::full(weight_hh.value().shape(), 1.0), kDropped);
  }
  const auto run = [&] {
    const RandomScope random(7, 2, 1);
    return layer(x);
  };
  const Tensor y = run();
  backward(sum(square(y)));
  const std::vector<float> gradient = values(weight_hh.gradient());
  for (const Parameter& parameter : layer.parameters()) parameter.leaf().clear_gradient();

  RnnWeights given = weights_of(layer, 0);
  given.weight_hh = mul(given.weight_hh, mask);
  const Tensor expected = rnn_layer(x, {}, given).y;
  CHECK(values(y) == values(expected));
  backward(sum(square(expected)));
  CHECK(gradient == values(weight_hh.gradient()));
  const std::vector<float> kept = values(mask);
  REQUIRE(std::ranges::count(kept, 0.0f) > 0);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK((kept[i] == 0.0f) == (gradient[i] == 0.0f));

  layer.eval();
  CHECK(values(run()) == values(rnn_layer(x, {}, weights_of(layer, 0)).y));
}

TEST_CASE("locked dropout between layers drops an element at every step", "[recurrent]") {
  Recurrent layers(kInputs, kUnits, {.cell = RnnCell::gru, .layers = 2, .dropout = 0.5, .locked = true});
  const Tensor x = some_input();
  const auto run = [&] {
    const RandomScope random(7, 2, 1);
    return layers(x, {});
  };
  const RnnResult result = run();
  const RandomScope random(7, 2, 1);
  const RnnOptions gru{.cell = RnnCell::gru};
  const RnnResult first = rnn_layer(x, {}, weights_of(layers, 0), gru);
  const RnnResult second = rnn_layer(locked_dropout(first.y, 0.5), {}, weights_of(layers, 1), gru);
  CHECK(values(result.y) == values(second.y));
  CHECK(values(result.state.h) == values(stack({first.state.h, second.state.h}, 0)));
  CHECK_FALSE(result.state.c.defined());
  layers.eval();
  CHECK(values(run().y) == values(rnn_layer(first.y, {}, weights_of(layers, 1), gru).y));
}

TEST_CASE("a last layer of fewer units leaves zeros in the state that it does not have", "[recurrent]") {
  constexpr Index kLast = 2;
  Recurrent layers(kInputs, kUnits, {.layers = 2, .last_units = kLast});
  CHECK(layers.outputs() == kLast);
  CHECK(layers.parameters()[4].value().shape() == Shape{4 * kLast, kUnits});
  CHECK(layers.parameters()[5].value().shape() == Shape{4 * kLast, kLast});
  const Tensor x = some_input();
  const RnnResult whole = layers(x, {});
  const RnnResult first = rnn_layer(x, {}, weights_of(layers, 0));
  const RnnResult second = rnn_layer(first.y, {}, weights_of(layers, 1));
  CHECK(values(whole.y) == values(second.y));
  CHECK(whole.state.c.shape() == Shape{2, kRows, kUnits});
  CHECK(values(slice(whole.state.c, 2, 0, kLast).rows(1, 1)) == values(second.state.c));
  for (const float zero : values(slice(whole.state.h, 2, kLast, kUnits).rows(1, 1))) CHECK(zero == 0.0f);
  // Pieces of a stream give what the whole gives.
  const RnnResult before = layers(x.rows(0, 1), {});
  const RnnResult after = layers(x.rows(1, kSteps - 1), before.state);
  check_close(after.y, whole.y.rows(1, kSteps - 1));
  check_close(after.state.h, whole.state.h);
  backward(sum(square(whole.y)));
  for (const Parameter& parameter : layers.parameters()) CHECK(parameter.gradient().defined());
}

TEST_CASE("mistakes in what AWD-LSTM asks for are explained", "[recurrent]") {
  const auto message = [](const RecurrentOptions& options) {
    try {
      Recurrent(kInputs, kUnits, options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(message({.weight_dropout = 1.0}), Catch::Contains("weight_dropout must lie in [0, 1), got 1"));
  for (const RecurrentOptions& options :
       {RecurrentOptions{.layers = 1, .last_units = 3},
        RecurrentOptions{.layers = 2, .last_units = kUnits + 1},
        RecurrentOptions{.layers = 2, .bidirectional = true, .last_units = 3},
        RecurrentOptions{.layers = 2, .projection = 2, .last_units = 2}})
    CHECK_THAT(message(options),
               Catch::Contains("last_units must be at most the units of the earlier layers (5)"));
  Recurrent layers(kInputs, kUnits, {.layers = 2, .last_units = 2});
  CHECK_THROWS_AS(layers(some_input(), {Tensor::zeros({1, kRows, kUnits}), {}}), UserError);
}
