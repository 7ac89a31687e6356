// The replay that names the first op, tensor and index of an overflow, and its cause.
#include "amp/overflow.h"

#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "core/backend.h"
#include "core/random.h"
#include "models/resnet.h"
#include "nn/layers/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/sequential.h"

using namespace tandem;
using Catch::Matchers::Contains;

namespace {

struct Fixture {
  std::shared_ptr<models::ResNet> model;
  Tensor images = Tensor::full({2, 12, 12, 1}, 0.5);
  Tensor labels = Tensor::from(std::vector<std::int64_t>{1, 3}, {2});

  Fixture() {
    const RandomScope random(3, 0, 0);
    model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
  }
  Tensor loss() {
    const amp::Autocast autocast(amp::Precision::amp_fp16());
    return cross_entropy((*model)(images), labels);
  }
  std::optional<amp::Overflow> find(double scale) {
    return amp::find_overflow(
        *model, 1, [this](int) { return loss(); }, scale);
  }
};

}  // namespace

TEST_CASE("a finite step has no overflow, and leaves no gradients", "[overflow]") {
  Fixture f;
  CHECK_FALSE(f.find(1024.0));
  for (const Parameter& parameter : f.model->parameters()) CHECK_FALSE(parameter.gradient().defined());
}

TEST_CASE("a scale that is too high is the cause", "[overflow]") {
  Fixture f;
  const auto found = f.find(0x1p30);
  REQUIRE(found);
  CHECK_FALSE(found->forward);
  CHECK(found->caused_by_scale);
  // The logits' gradient is the first thing in 16 bits; everything before it is f32.
  CHECK(found->op == "cross_entropy");
  CHECK_THAT(found->tensor, Contains("gradient of input 0") && Contains("f16[2,10]"));
  CHECK_THAT(amp::to_string(*found), Contains("loss scale is the cause"));
}

TEST_CASE("an overflow in an op that a backward is composed of is backward's", "[overflow]") {
  // The gradient of the second layer's output is scale / elements, and that of its input a sum of products
  // with weights of 1024, beyond FP16.
  struct Case {
    std::shared_ptr<nn::Module> first, second;
    Tensor x;
    const char* op;
  };
  const nn::ConvOptions plain{.bias = false};
  const Case cases[] = {
      {std::make_shared<nn::Linear>(4, 4), std::make_shared<nn::Linear>(4, 2), Tensor::full({4, 4}, 1e-3),
       "linear"},
      {std::make_shared<nn::Conv2d>(3, 16, 3, plain), std::make_shared<nn::Conv2d>(16, 16, 3, plain),
       Tensor::full({2, 6, 6, 3}, 1e-3), "conv2d"}};
  for (const Case& c : cases) {
    CAPTURE(c.op);
    const Tensor weight = c.second->parameters().front().value();
    backend_for({}).fill(weight, 1024.0);
    weight.storage()->bump_version();
    nn::Sequential model{c.first, c.second};
    const auto loss = [&](int) {
      const amp::Autocast autocast(amp::Precision::amp_fp16());
      return mean(cast(model(c.x), DType::f32));
    };
    CHECK_FALSE(amp::find_overflow(model, 1, loss, 1.0));
    const auto found = amp::find_overflow(model, 1, loss, 0x1p13);
    REQUIRE(found);
    INFO(amp::to_string(*found));
    CHECK(found->op == c.op);
    CHECK_FALSE(found->forward);
    CHECK(found->caused_by_scale);
    CHECK_THAT(found->tensor, Contains("gradient of input 0, f16[") && Contains("in 1"));
  }
}

TEST_CASE("an overflow in forward is the model's, with its layer and index", "[overflow]") {
  Fixture f;
  for (Parameter& parameter : f.model->parameters()) {
    if (parameter.name() != "layer2.0.conv1.weight") continue;
    parameter.value().data<float>()[5] = 70000.0f;  // infinite in f16
    parameter.value().storage()->bump_version();
  }
  const auto found = f.find(1.0);
  REQUIRE(found);
  CHECK(found->forward);
  CHECK_FALSE(found->caused_by_scale);
  CHECK(found->op == "conv2d");
  CHECK_THAT(found->tensor, Contains("in layer2.0.conv1"));
}

TEST_CASE("a gradient that is infinite at every scale is the model's", "[overflow]") {
  Fixture f;
  const auto found = amp::find_overflow(
      *f.model, 1, [&](int) { return sum(sqrt(mul(sum((*f.model)(f.images)), Tensor::scalar(0.0)))); }, 8.0);
  REQUIRE(found);
  CHECK_FALSE(found->forward);
  CHECK_FALSE(found->caused_by_scale);
  CHECK(found->op == "sqrt");
}
