// Attention layers; self-attention against PyTorch's MultiheadAttention (tests/golden/self_attention.py).
#include "nn/layers/attention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "nn/layers/cross_attention.h"
#include "tests/golden/self_attention.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr Index kRows = golden::kRows, kSteps = golden::kSteps, kFeatures = golden::kFeatures;

Tensor drawn(int k, const Shape& shape) {
  std::vector<double> values;
  for (Index i = 0; i < shape.numel(); ++i)
    values.push_back(std::sin(1.7 * static_cast<double>(i) + 0.9 * k + 0.3) / 2.0);
  return tensor_of(values, shape, DType::f32);
}

void check_close(const Tensor& found, const double* wanted) {
  for (const double value : found.to_vector<double>()) CHECK(value == Approx(*wanted++).margin(2e-6));
}

}  // namespace

TEST_CASE("self-attention has PyTorch's values, gradients and names") {
  for (const golden::SelfAttention& wanted : golden::kSelfAttention) {
    INFO("causal " << wanted.causal);
    nn::SelfAttention layer(kFeatures, {.heads = golden::kHeads, .causal = wanted.causal});
    const auto named = layer.parameter_paths();
    const std::vector<std::string> names{"in_proj_weight", "in_proj_bias", "out_proj.weight",
                                         "out_proj.bias"};
    REQUIRE(named.size() == names.size());
    for (std::size_t k = 0; k < names.size(); ++k) {
      CHECK(named[k].first == names[k]);
      const Tensor& value = named[k].second.value();
      backend_for(value.device()).copy_bytes(drawn(static_cast<int>(k) + 1, value.shape()), value);
    }
    const Tensor x = leaf(drawn(0, {kRows, kSteps, kFeatures}));
    const Tensor y = layer(x);
    check_close(y, wanted.result.data());
    std::vector<double> seed;
    for (Index i = 0; i < y.numel(); ++i) seed.push_back(std::cos(0.37 * static_cast<double>(i)));
    const TensorList ys{y}, seeds{tensor_of(seed, y.shape(), DType::f32)};
    backward(ys, seeds);
    const double* gradient = wanted.gradients.data();
    check_close(gradient_of(x), gradient);
    gradient += x.numel();
    for (const auto& [name, parameter] : named) {
      check_close(parameter.gradient(), gradient);
      gradient += parameter.value().numel();
    }
  }
}

TEST_CASE("self-attention starts as PyTorch's does") {
  const nn::SelfAttention layer(kFeatures, {.heads = golden::kHeads});
  const std::vector<Parameter> parameters = layer.parameters();
  const double bound = std::sqrt(6.0 / (3 * kFeatures + kFeatures));  // Glorot's
  const auto largest_of = [](const Parameter& parameter) {
    double largest = 0.0;
    for (const double weight : parameter.value().to_vector<double>())
      largest = std::max(largest, std::abs(weight));
    return largest;
  };
  CHECK(largest_of(parameters[0]) <= bound);
  CHECK(largest_of(parameters[0]) > 0.8 * bound);
  const double of_linear = 1.0 / std::sqrt(kFeatures);
  CHECK(largest_of(parameters[2]) <= of_linear);
  CHECK(largest_of(parameters[2]) > 0.8 * of_linear);
  for (const std::size_t bias : {1u, 3u})
    for (const double value : parameters[bias].value().to_vector<double>()) CHECK(value == 0.0);
}

TEST_CASE("cross-attention reads the working copy of its projections, whose gradient is FP32") {
  nn::CrossAttention layer(kFeatures, {.heads = golden::kHeads});
  const Tensor from = drawn(1, {kRows, kSteps, kFeatures}), x = drawn(0, {kRows, 2, kFeatures});
  const Tensor weight = layer.parameters().front().value();
  {
    const amp::Autocast autocast(amp::Precision::amp_bf16());
    backward(sum(cast(layer(x, layer.memory(from, {})), DType::f32)));
  }
  CHECK(has_working_copy(weight, DType::bf16));
  const Tensor gradient = layer.parameters().front().gradient();
  CHECK(gradient.dtype() == DType::f32);
  const std::vector<float> values = gradient.to_vector<float>();
  const std::vector<float> rounded = cast(cast(gradient, DType::bf16), DType::f32).to_vector<float>();
  for (std::size_t part = 0; part < 3; ++part) {  // queries, keys, values
    INFO("part " << part);
    const auto first = static_cast<std::ptrdiff_t>(part * values.size() / 3);
    const auto last = first + static_cast<std::ptrdiff_t>(values.size() / 3);
    CHECK_FALSE(std::equal(values.begin() + first, values.begin() + last, rounded.begin() + first));
  }
}

TEST_CASE("self-attention drops weights in training alone, and says what does not fit") {
  nn::SelfAttention layer(kFeatures, {.heads = 3, .bias = false, .dropout = 0.5});
  CHECK(layer.describe() == "SelfAttention(6 features, 3 heads, dropout 0.5, no bias)");
  CHECK(layer.parameters().size() == 2);
  const Tensor x = drawn(0, {kRows, kSteps, kFeatures});
  layer.eval();
  const auto calm = layer(x).to_vector<float>();
  CHECK(layer(x).to_vector<float>() == calm);
  layer.train();
  CHECK(layer(x).to_vector<float>() != calm);
  CHECK_THROWS_WITH(nn::SelfAttention(6, {.heads = 4}), Catch::Contains("4 heads do not divide 6 features"));
  CHECK_THROWS_AS(nn::SelfAttention(6, {.dropout = 1.0}), UserError);
  CHECK_THROWS_WITH(layer(drawn(0, {2, 5, 4})), Catch::Contains("[self_attention] expects [N,T,6]"));
}
