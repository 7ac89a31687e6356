// Recomputation: values and gradients of recomputed functions are those of ordinary calls.
#include "autograd/recompute.h"

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "core/backend.h"
#include "core/random.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

// A perceptron with dropout and a skip connection.
struct Net {
  Parameter inner{test::random_tensor({6, 4}, DType::f32, 1)},
      outer{test::random_tensor({4, 6}, DType::f32, 2)};
  Tensor x = leaf(test::random_tensor({3, 4}, DType::f32, 3));

  Tensor layer(const Tensor& in) const {
    return add(in, linear(dropout(gelu(linear(in, inner)), 0.3), outer));
  }
  RecomputedFunction function() const {
    return [this](const TensorList& in) { return TensorList{layer(in[0])}; };
  }
  std::vector<Parameter> parameters() const { return {inner, outer}; }
  Tensor again(const Tensor& in) const { return recomputed(function(), {in}, parameters())[0]; }
};

// Loss and gradients of two layers with shared parameters; both of their inputs have another reader.
std::vector<std::vector<double>> results(bool recompute) {
  const Net net;
  const RandomScope random(7, 1, 2);
  const auto layer = [&](const Tensor& in) { return recompute ? net.again(in) : net.layer(in); };
  const Tensor hidden = layer(net.x);
  const Tensor loss = sum(add(mul(layer(hidden), hidden), net.x));
  const Tensor drawn = dropout(loss, 0.5);  // the numbers after the layers
  {
    const RandomScope other(8, 3, 0);
    backward(loss);
  }
  return {loss.to_vector<double>(), drawn.to_vector<double>(), gradient_of(net.x).to_vector<double>(),
          net.inner.gradient().to_vector<double>(), net.outer.gradient().to_vector<double>()};
}

}  // namespace

TEST_CASE("recomputed functions have the bits of ordinary calls, with the same random numbers",
          "[recompute]") {
  CHECK(results(true) == results(false));
}

TEST_CASE("a recomputed function keeps no activations", "[recompute]") {
  const Tensor x = leaf(test::random_tensor({1000}, DType::f32, 1));
  const auto kept = [&](bool recompute) {
    const RecomputedFunction f = [](const TensorList& in) { return TensorList{exp(tanh(exp(tanh(in[0]))))}; };
    const std::size_t before = backend_for(x.device()).memory().live;
    const Tensor y = recompute ? recomputed(f, {x})[0] : f({x})[0];
    return backend_for(x.device()).memory().live - before;
  };
  CHECK(kept(true) < kept(false) / 3);
}

TEST_CASE("parameters of recomputed functions are announced once, after the last use", "[recompute]") {
  Net net;
  const Tensor first = net.again(net.x);
  const Tensor loss = sum(linear(net.again(first), net.inner));
  int announced = 0;
  std::vector<double> seen;
  net.inner.leaf().on_ready = [&](Leaf& leaf) {
    ++announced;
    seen = leaf.gradient().to_vector<double>();
  };
  backward(loss);
  CHECK(announced == 1);
  CHECK(seen == net.inner.gradient().to_vector<double>());
}

TEST_CASE("recomputed functions give gradients of given inputs, several times, and within each other",
          "[recompute]") {
  const Net net;
  const RandomScope random(1, 0, 0);
  const RecomputedFunction two = [&](const TensorList& in) {
    return TensorList{net.again(in[0]), exp(in[0]), Tensor()};
  };
  const TensorList out = recomputed(two, {net.x, {}}, net.parameters());
  CHECK_FALSE(out[2].defined());
  const Tensor loss = sum(mul(out[0], out[1])), seed = Tensor::full(loss.shape(), 1.0, loss.options());
  const auto of_input = [&] {
    const TensorList found = gradients({&loss, 1}, {&seed, 1}, {&net.x, 1}, {.retain_graph = true});
    return found[0].to_vector<double>();
  };
  const std::vector<double> once = of_input();
  CHECK(once == of_input());
  CHECK_FALSE(net.inner.gradient().defined());
  backward(loss);
  CHECK(gradient_of(net.x).to_vector<double>() == once);
  CHECK_FAILS(UserError, backward(loss), "freed by an earlier backward");
}

TEST_CASE("functions run as usual without gradients, for second derivatives, and if activations are kept",
          "[recompute]") {
  const Net net;
  const auto is_recomputed = [&] {
    const Tensor y = net.again(net.x);
    return y.requires_grad() && node_of(y)->is_recomputed();
  };
  CHECK(is_recomputed());
  {
    const NoGrad no_grad;
    CHECK_FALSE(is_recomputed());
  }
  {
    const KeepActivations kept;
    CHECK_FALSE(is_recomputed());
  }
  const HigherOrder higher;
  CHECK_FALSE(is_recomputed());
}

TEST_CASE("errors of recomputation name the cause", "[recompute]") {
  const Net net;
  const auto run = [&](const RecomputedFunction& function) {
    backward(sum(recomputed(function, {net.x}, std::vector{net.inner})[0]));
  };
  CHECK_FAILS(UserError, backward(sum(net.again(net.x)), 1.0, {.create_graph = true}),
              "no second derivative");
  CHECK_FAILS(UserError, run(net.function()), "neither one of its inputs nor of its parameters");
  int calls = 0;
  CHECK_FAILS(UserError,
              run([&](const TensorList& in) { return TensorList{++calls == 1 ? exp(in[0]) : tanh(in[0])}; }),
              "second pass has tanh as op 0, the first had exp");
  CHECK_FAILS(UserError, run([&](const TensorList& in) {
                return TensorList{++calls % 2 == 1 ? exp(tanh(in[0])) : tanh(in[0])};
              }),
              "second pass has 1 ops, the first had 2");
  const Tensor y = sum(net.again(net.x));
  net.outer.value().storage()->bump_version();
  CHECK_FAILS(UserError, backward(y), "written in place");
  const Tensor mean = Tensor::zeros({4}), var = Tensor::zeros({4});
  CHECK_FAILS(UserError, run([&](const TensorList& in) {
                return TensorList{batch_norm_train(in[0], {}, {}, {mean, var, mean.clone(), var.clone()})};
              }),
              "would update the running statistics twice");
}
