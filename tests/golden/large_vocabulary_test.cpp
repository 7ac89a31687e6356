// Softmaxes over large vocabularies against PyTorch and TensorFlow's formulas
// (tests/golden/large_vocabulary.py makes the values), and against independent vectors.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "files/safetensors.h"
#include "nn/layers/adaptive_softmax.h"
#include "nn/layers/sampled_softmax.h"
#include "tests/golden/hashed.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

using nlohmann::json;
using Values = std::vector<double>;
using Ids = std::vector<std::int64_t>;

void assign(const Parameter& parameter, const Tensor& value) {
  backend_for(parameter.value().device()).cast(value.to(test::test_device()), parameter.value());
  parameter.value().storage()->bump_version();
}

struct Case {
  std::string name;
  json what;
  const safetensors::File& golden;

  Tensor read(const std::string& key) const { return golden.read(name + "." + key); }
  Index size(const char* key) const { return what.at(key); }
  Tensor x() const {
    return leaf(signed_unit(name + ".x", {size("rows"), size("inputs")}).to(test::test_device()));
  }
  Tensor target() const { return read("target").to(test::test_device()); }
  void check(const std::string& key, const Tensor& found, double tolerance = 2e-6) const {
    INFO(name << " " << key);
    const Values expected = read(key).to_vector<double>(), values = found.to_vector<double>();
    REQUIRE(values.size() == expected.size());
    CHECK(test::normalised_error(values, expected) < tolerance);
  }
};

template <class Function>
void for_each_case(const char* kind, Function&& function) {
  const safetensors::File golden(test::source_path("tests/golden/large_vocabulary.safetensors"));
  const json cases = json::parse(golden.metadata().at(kind));
  REQUIRE_FALSE(cases.empty());
  for (const auto& [name, what] : cases.items()) function(Case{name, what, golden});
}

std::shared_ptr<nn::AdaptiveSoftmax> adaptive(const Case& c) {
  auto layer = std::make_shared<nn::AdaptiveSoftmax>(
      c.size("inputs"), c.size("classes"),
      nn::AdaptiveSoftmaxOptions{c.what.at("cutoffs").get<std::vector<Index>>(), c.what.at("div_value"),
                                 c.what.at("head_bias")});
  layer->to(test::test_device());
  for (const Parameter& parameter : layer->parameters())
    assign(parameter, cast(c.read("weight." + parameter.name()), DType::f32));
  return layer;
}

void check_gradients(const Case& c, nn::Module& layer, const Tensor& x, double tolerance) {
  c.check("gradient.x", gradient_of(x), tolerance);
  for (const Parameter& parameter : layer.parameters()) {
    const Tensor gradient = parameter.gradient();
    c.check("gradient." + parameter.name(),
            gradient.defined() ? gradient : Tensor::zeros(parameter.value().shape()), tolerance);
  }
}

}  // namespace

TEST_CASE("an adaptive softmax gives PyTorch's log-probabilities, predictions and gradients",
          "[vocabulary]") {
  for_each_case("adaptive", [](const Case& c) {
    const auto layer = adaptive(c);
    const Tensor x = c.x();
    c.check("output", neg(layer->negative_log_likelihood(x, c.target())));
    c.check("log_prob", (*layer)(x));
    CHECK(layer->predict(x).to_vector<std::int64_t>() == c.read("predict").to_vector<std::int64_t>());
    const Tensor loss = layer->loss(x, c.target());
    c.check("loss", loss);
    backward(loss);
    check_gradients(c, *layer, x, 5e-6);
  });
}

TEST_CASE("an adaptive softmax gives the same where every cluster sees every row", "[vocabulary]") {
  for_each_case("adaptive", [](const Case& c) {
    const auto layer = adaptive(c);
    std::vector<Index> bounds = layer->options().cutoffs;
    bounds.push_back(layer->classes());
    const Tensor x = c.x();
    const Tensor nll = layer->negative_log_likelihood(x, nn::every_row(c.target(), bounds, std::nullopt));
    c.check("output", neg(nll));
    backward(mean(nll));
    check_gradients(c, *layer, x, 5e-6);
  });
}

TEST_CASE("an adaptive softmax multiplies in 16 bits and adds logarithms in f32", "[vocabulary]") {
  for (const char* level : {"O1", "O2"}) {
    for_each_case("adaptive", [&](const Case& c) {
      INFO(level);
      const auto layer = adaptive(c);
      const Tensor x = c.x();
      amp::Precision precision = amp::Precision::amp_bf16();
      precision.level = level == std::string("O2") ? amp::Level::O2 : amp::Level::O1;
      Tensor nll, loss, all;
      {
        const amp::Autocast autocast(precision);
        nll = layer->negative_log_likelihood(x, c.target());
        loss = layer->loss(x, c.target());
        all = (*layer)(x);
      }
      for (const Tensor& each : {nll, loss, all}) CHECK(each.dtype() == DType::f32);
      c.check("output", neg(nll), 2e-2);
      c.check("log_prob", all, 2e-2);
      backward(loss);
      check_gradients(c, *layer, x, 5e-2);
    });
  }
}

TEST_CASE("rows without a target count for nothing in an adaptive softmax", "[vocabulary]") {
  for_each_case("adaptive", [](const Case& c) {
    const auto layer = adaptive(c);
    Ids ids = c.read("target").to_vector<std::int64_t>();
    Values expected = c.read("output").to_vector<double>();
    double sum = 0.0;
    for (std::size_t row = 0; row < ids.size(); ++row) {
      if (row % 2 == 1) ids[row] = -7;
      expected[row] = row % 2 == 1 ? 0.0 : -expected[row];
      sum += expected[row];
    }
    const Tensor target = Tensor::from(ids, {static_cast<Index>(ids.size())}, test::test_device());
    const Tensor x = c.x();
    const Values found = layer->negative_log_likelihood(x, target, -7).to_vector<double>();
    for (std::size_t row = 0; row < ids.size(); ++row)
      CHECK(found[row] == Approx(expected[row]).margin(1e-5));
    const Tensor loss = layer->loss(x, target, -7);
    CHECK(loss.item() == Approx(sum / static_cast<double>((ids.size() + 1) / 2)));
    backward(loss);
    const Values gradient = gradient_of(x).to_vector<double>();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      if (i / static_cast<std::size_t>(c.size("inputs")) % 2 == 1) CHECK(gradient[i] == 0.0);
    const Tensor none = Tensor::full(target.shape(), -7.0, target.options());
    CHECK(layer->loss(x, none, -7).item() == 0.0);
  });
}

TEST_CASE("an adaptive softmax of sines gives the vector that was made for it", "[vocabulary]") {
  nn::AdaptiveSoftmax layer(8, 12, {{3, 6}, 2.0, true});
  layer.to(test::test_device());
  double j = 1.0;
  for (const Parameter& parameter : layer.parameters()) {
    Values values(static_cast<std::size_t>(parameter.value().numel()));
    for (double& value : values) value = 0.5 * std::sin(j++);
    assign(parameter, test::tensor_of(values, parameter.value().shape(), DType::f32));
  }
  Values x(32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.5 * std::sin(301.0 + static_cast<double>(i));
  const Tensor input = test::tensor_of(x, {4, 8}, DType::f32);
  const Tensor target = Tensor::from(Ids{0, 4, 7, 11}, {4}, test::test_device());
  const Values nll = layer.negative_log_likelihood(input, target).to_vector<double>();
  const Values expected{1.785425, 3.795611, 2.372487, 4.369911};
  for (std::size_t i = 0; i < 4; ++i) CHECK(nll[i] == Approx(expected[i]).epsilon(1e-6));
  CHECK(layer.loss(input, target).item() == Approx(3.080859).epsilon(1e-6));
}

TEST_CASE("a sampled softmax gives the loss and the gradients of its formulas", "[vocabulary]") {
  for_each_case("sampled", [](const Case& c) {
    nn::Linear linear(c.size("inputs"), c.size("classes"), {.bias = c.what.at("bias")});
    nn::SampledSoftmax layer(linear);
    layer.to(test::test_device());
    for (const Parameter& parameter : layer.parameters())
      assign(parameter, signed_unit(c.name + "." + parameter.name(), parameter.value().shape()));
    const auto counts = [&](const char* key) {
      return cast(c.read(key), DType::f32).to(test::test_device());
    };
    const nn::CandidateClasses candidates{c.read("candidate").to(test::test_device()), counts("log_count"),
                                          counts("target_log_count")};
    const Tensor x = c.x();
    const Tensor loss = layer.loss(x, c.target(), candidates);
    c.check("loss", loss);
    backward(loss);
    check_gradients(c, layer, x, 5e-6);
    for (const amp::Level level : {amp::Level::O1, amp::Level::O2}) {
      amp::Precision precision = amp::Precision::amp_bf16();
      precision.level = level;
      const amp::Autocast autocast(precision);
      const Tensor narrow = layer.loss(c.x(), c.target(), candidates);
      CHECK(narrow.dtype() == DType::f32);
      c.check("loss", narrow, 2e-2);
    }
  });
}

TEST_CASE("a sampled softmax corrects logits by how often classes are drawn", "[vocabulary]") {
  // Logits by class: 2: 1, 0: .5, 7: -.3; of the candidates 0, 7, 2 the last is the target itself.
  nn::Linear linear(1, 10, {.bias = false});
  nn::SampledSoftmax layer(linear);
  layer.to(test::test_device());
  Values weight(10, 0.0);
  weight[2] = 1.0, weight[0] = 0.5, weight[7] = -0.3;
  assign(layer.weight(), test::tensor_of(weight, {10, 1}, DType::f32));
  // 1 - 2.021878, .5 - .642492 and -.3 - 1.614890 are the logarithms of expected counts.
  const auto ids = [](const Ids& values) {
    return Tensor::from(values, {static_cast<Index>(values.size())}, test::test_device());
  };
  const nn::CandidateClasses candidates{ids({0, 7, 2}),
                                        test::floats({-.142492f, -1.914890f, -1.021878f}, {3}),
                                        test::floats({-1.021878f, 0.0f}, {2})};
  const Tensor x = test::floats({1.0f, 1.0f}, {2, 1});
  CHECK(layer.loss(x, ids({2, -1}), candidates, -1).item() == Approx(.650962).epsilon(2e-6));
  CHECK(layer.loss(x, ids({-1, -1}), candidates, -1).item() == 0.0);
}

TEST_CASE("softmaxes of large vocabularies say what they do not take", "[vocabulary]") {
  const auto complaint = [](std::vector<Index> cutoffs, double div = 4.0) {
    return nn::complaint_of({std::move(cutoffs), div}, 16, 12);
  };
  using Catch::Contains;
  CHECK(complaint({3, 6}).empty());
  CHECK(complaint({11}).empty());
  CHECK_THAT(complaint({}), Contains("there are no cutoffs"));
  CHECK_THAT(complaint({0, 3}), Contains("cutoff 0 lies outside of [1, 11] for 12 classes"));
  CHECK_THAT(complaint({3, 12}), Contains("cutoff 12 lies outside of [1, 11]"));
  CHECK_THAT(complaint({6, 3}), Contains("cutoffs must increase, 3 comes after 6"));
  CHECK_THAT(complaint({3, 3}), Contains("cutoffs must increase"));
  CHECK_THAT(complaint({3}, 0.5), Contains("div_value must be a number of at least 1, is 0.5"));
  CHECK_THAT(complaint({3, 4, 5}), Contains("cluster 3 would have 16 / 4^3 = 0 inputs"));
  nn::AdaptiveSoftmax layer(16, 12, {{3, 6}});
  const Tensor x = Tensor::zeros({2, 16});
  CHECK_THROWS_WITH(layer.loss(x, Tensor::from(Ids{0, 12}, {2})),
                    Contains("target 12 in row 1 lies outside [0,12)"));
  CHECK_THROWS_WITH(layer.loss(x, Tensor::from(Ids{0}, {1})), Contains("needs one class per row"));
  CHECK_THROWS_AS(nn::AdaptiveSoftmax(16, 12, {{}}), UserError);
  nn::SampledSoftmax sampled(nn::Linear(16, 12));
  CHECK_THROWS_WITH(sampled.loss(x, Tensor::from(Ids{0, 1}, {2}),
                                 {Tensor::from(Ids{3}, {1}), Tensor::zeros({2}), Tensor::zeros({2})}),
                    Contains("log counts"));
}

TEST_CASE("few capacities serve every number of rows of a cluster", "[vocabulary]") {
  for (const Index rows : {1, 20, 700}) {
    std::set<Index> seen;
    for (Index count = 1; count <= rows; ++count) {
      const Index capacity = nn::capacity_of(count, rows);
      CHECK((capacity >= count && capacity <= rows));
      seen.insert(capacity);
    }
    CHECK(seen.size() <= 32);
  }
}
