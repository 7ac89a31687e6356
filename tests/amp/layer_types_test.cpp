// Types by layer, as in NVCaffe: storage, products and gradients.
#include <catch2/catch.hpp>
#include <cmath>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/wide_gradients.h"
#include "core/random.h"
#include "nn/layers.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using test::random_tensor;

namespace {

amp::Precision fp16_with(const amp::LayerRule& rule) {
  amp::Precision precision{.level = amp::Level::O1, .dtype = DType::f16};
  precision.layers = {rule};
  return precision;
}

std::shared_ptr<nn::Sequential> small_net() {
  const RandomScope random(3, 0, 0);
  return std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{
      std::make_shared<nn::Linear>(8, 16), std::make_shared<nn::Relu>(), std::make_shared<nn::Linear>(16, 8),
      std::make_shared<nn::Relu>(), std::make_shared<nn::Linear>(8, 4)});
}

struct Outcome {
  std::vector<float> outputs, gradients;
};

// Gradients of a loss that is multiplied by `factor`, divided by it again.
Outcome run(nn::Module& net, const amp::ResolvedPrecision& plan, double factor) {
  net.clear_gradients();
  const Tensor x = random_tensor({16, 8});
  Tensor y, loss;
  {
    const amp::Autocast autocast(plan);
    y = net(x);
    loss = mean(square(y)) * factor;
  }
  backward(loss);
  Outcome outcome{.outputs = y.to_vector<float>(), .gradients = {}};
  for (const Parameter& parameter : net.parameters())
    for (const float value : parameter.gradient().to_vector<float>())
      outcome.gradients.push_back(static_cast<float>(value / factor));
  return outcome;
}

double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0.0, whole = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    whole += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(squares / whole);
}

}  // namespace

TEST_CASE("backward fp32: gradients that FP16 flushes without a loss scale arrive", "[layers][backward]") {
  const auto net = small_net();
  constexpr double kTiny = 0x1p-24;
  const Outcome wide = run(*net, amp::ResolvedPrecision(amp::Precision::fp32()), kTiny);
  const amp::ResolvedPrecision narrow({.level = amp::Level::O1, .dtype = DType::f16});
  const amp::ResolvedPrecision widened(fp16_with({.match = "", .dtype = DType::f16, .backward = DType::f32}),
                                       *net);
  const Outcome flushed = run(*net, narrow, kTiny), kept = run(*net, widened, kTiny);
  CHECK(apart(flushed.gradients, wide.gradients) > 0.3);
  CHECK(apart(kept.gradients, wide.gradients) < 0.01);
  CHECK(kept.outputs == flushed.outputs);  // forward is that of FP16, to the bit
  CHECK(kept.outputs != wide.outputs);
  // Any factor that is a power of two gives the same gradients: nothing of them was rounded to FP16's range.
  CHECK(run(*net, widened, 1.0).gradients == kept.gradients);
}

TEST_CASE("backward fp32 reaches the layers that match, and ends with them", "[layers][backward]") {
  const auto net = small_net();
  const auto wide_inside = [&](std::vector<amp::LayerRule> rules) {
    amp::Precision precision{.level = amp::Level::O1, .dtype = DType::f16};
    precision.layers = std::move(rules);
    const amp::ResolvedPrecision plan(precision, *net);
    class Watch final : public OpObserver {
     public:
      std::vector<bool> seen;
      void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor>) override {
        if (std::string_view(info.name) == "linear") seen.push_back(WideGradients::enabled());
      }
    } watch;
    const ObserverScope observed(watch);
    const amp::Autocast autocast(plan);
    (*net)(random_tensor({2, 8}));
    CHECK_FALSE(WideGradients::enabled());
    return watch.seen;
  };
  const amp::LayerRule second{.match = "^2$", .dtype = DType::f16, .backward = DType::f32};
  const amp::LayerRule all{.match = "", .dtype = DType::f16, .backward = DType::f32};
  CHECK(wide_inside({second}) == std::vector<bool>{false, true, false});
  CHECK(wide_inside({all, {.match = "^4$", .dtype = DType::f16}}) == std::vector<bool>{true, true, false});
  CHECK(wide_inside({{.match = "^2$", .dtype = DType::f32, .backward = DType::f32}}) ==
        std::vector<bool>{false, false, false});
}

TEST_CASE("math: what operands are multiplied in, whatever the result is stored in", "[layers][math]") {
  const auto layer = std::make_shared<nn::Linear>(8, 8);
  const Tensor x = random_tensor({4, 8});
  const auto run_in = [&](const amp::LayerRule& rule) {
    const amp::ResolvedPrecision plan(fp16_with(rule), *layer);
    const amp::Autocast autocast(plan);
    return (*layer)(x);
  };
  const auto rounded = [](const Tensor& t) { return cast(cast(t, DType::f16), DType::f32); };
  const Tensor weight = layer->own_parameters()[0].second.value(),
               bias = layer->own_parameters()[1].second.value();

  const Tensor f32_math = run_in({.match = "", .dtype = DType::f16, .math = DType::f32});
  CHECK(f32_math.dtype() == DType::f16);
  CHECK(f32_math.to_vector<float>() == rounded(linear(x, weight, bias)).to_vector<float>());

  const Tensor f16_math = run_in({.match = "", .dtype = DType::f32, .math = DType::f16});
  CHECK(f16_math.dtype() == DType::f32);
  const Tensor expected = linear(rounded(x), rounded(weight), rounded(bias));
  CHECK(apart(f16_math.to_vector<float>(), expected.to_vector<float>()) < 1e-6);
  CHECK(apart(f16_math.to_vector<float>(), linear(x, weight, bias).to_vector<float>()) > 1e-6);

  CHECK(run_in({.match = "", .dtype = DType::f16}).to_vector<float>() ==
        run_in({.match = "", .dtype = DType::f16, .math = DType::f16}).to_vector<float>());
  CHECK(fp16_with({.match = "", .dtype = DType::f32, .math = DType::bf16}).runs_in(DType::bf16));
}

TEST_CASE("types of a layer that contradict each other", "[layers]") {
  CHECK_FAILS(UserError, amp::check(fp16_with({.match = "a", .dtype = DType::f16, .math = DType::bf16})),
              "two 16-bit types");
  CHECK_FAILS(UserError, amp::check(fp16_with({.match = "a", .dtype = DType::f32, .backward = DType::f16})),
              "or f32");
  CHECK_FAILS(UserError, amp::check(fp16_with({.match = "a", .dtype = DType::f16, .backward = DType::bf16})),
              "or f32");
  CHECK_FAILS(UserError, amp::check(fp16_with({.match = "a", .dtype = DType::i64})), "must run in f32");
}
