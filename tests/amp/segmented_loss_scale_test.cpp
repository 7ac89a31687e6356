// Borders between segments of the loss scale: their places, no change of a bit in FP32, and their effect in
// FP16.
#include "amp/segmented_loss_scale.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "amp/autocast.h"
#include "amp/calibration.h"
#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/wide_gradients.h"
#include "core/error.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/sgd.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using amp::SegmentedLossScale;
using test::random_tensor;

namespace {

// y = x + second(first(x)).
class Residual final : public nn::Module {
 public:
  explicit Residual(Index width)
      : first_(add_child("first", std::make_shared<nn::Linear>(width, width))),
        second_(add_child("second", std::make_shared<nn::Linear>(width, width))) {}
  Tensor forward(const Tensor& x) override { return add(x, (*second_)(relu((*first_)(x)))); }

 private:
  std::shared_ptr<nn::Linear> first_, second_;
};

// Modules "0" to "4".
std::shared_ptr<nn::Sequential> network() {
  const RandomScope scope(5, 0, 0);
  auto model = std::make_shared<nn::Sequential>();
  model->add(std::make_shared<nn::Linear>(6, 8))
      .add(std::make_shared<nn::BatchNorm>(8))
      .add(std::make_shared<Residual>(8))
      .add(std::make_shared<nn::Relu>())
      .add(std::make_shared<nn::Linear>(8, 3));
  return model;
}

std::vector<std::string> names_from(nn::Module& model, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Parameter& parameter : model.parameters())
    if (parameter.name().starts_with(prefix)) names.push_back(parameter.name());
  return names;
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tensor loss_of(nn::Module& model, Index batch) {
  const Tensor x = random_tensor({8, 6}, DType::f32, static_cast<std::uint64_t>(batch + 1));
  return mean(square(model(x)));
}

// Three segments: 4; 3 and 2; 1 and 0.
std::vector<SegmentedLossScale::Segment> three(nn::Module& model, int second, int third) {
  return {{.border = "loss", .log2_scale = 0, .parameters = names_from(model, "4")},
          {.border = "3", .log2_scale = second, .parameters = names_from(model, "2")},
          {.border = "1",
           .log2_scale = third,
           .parameters = joined(names_from(model, "1"), names_from(model, "0"))}};
}

std::vector<int> scales_of(const optim::Step& step, const SegmentedLossScale& borders) {
  std::vector<int> scales;
  for (const auto& slot : step.buffers().slots()) scales.push_back(borders.log2_scale_of(slot.parameter));
  return scales;
}

enum class Ends : std::uint8_t { apply, unscaled };

// Weights after some steps, and the norms of the steps.
std::vector<double> trained(const std::function<std::unique_ptr<optim::Optimizer>(nn::Module&)>& make,
                            const optim::StepOptions& options, bool segments, Ends ends = Ends::apply) {
  const auto model = network();
  model->to(test::test_device());
  const auto optimizer = make(*model);
  optim::Step step(*model, {optimizer.get()}, options);
  const SegmentedLossScale borders(*model, three(*model, -9, 7));
  if (segments) step.set_segment_scales(scales_of(step, borders));
  std::vector<double> values;
  for (Index t = 0; t < 6; ++t) {
    for (int part = 0; part < options.accumulate; ++part) {
      const amp::BorderScope scope(segments ? &borders : nullptr);
      const Tensor loss = loss_of(*model, t * options.accumulate + part);
      scope.finish(loss);
      step.backward(loss);
    }
    if (ends == Ends::unscaled) step.unscale();
    step.apply();
    values.push_back(step.synchronize().gradient_norm);
  }
  for (const Parameter& parameter : model->parameters()) {
    const auto of_parameter = parameter.value().to_vector<double>();
    values.insert(values.end(), of_parameter.begin(), of_parameter.end());
  }
  return values;
}

}  // namespace

TEST_CASE("a border is a tensor that alone has a gradient", "[segments]") {
  const auto model = network();
  amp::ChainCollector collector(*model);
  for (Index batch = 0; batch < 2; ++batch) {
    const Tensor loss = loss_of(*model, batch);
    collector.begin_backward(loss);
    backward(loss);
    collector.end_backward();
  }
  const amp::BackwardLinks found = collector.links();
  std::vector<std::string> borders;
  for (const auto& link : found.links) borders.push_back(link.border);
  CHECK(borders == std::vector<std::string>{"loss", amp::kWholeModel, "4", "3", "2", "1", "0"});
  CHECK(found.links[2].parameters == std::vector<std::string>{"4.weight", "4.bias"});
  CHECK(found.links[4].parameters.size() == 4);  // of both linear layers beside the shortcut
  CHECK(found.links[3].behind.total() == 2 * 8 * 8);
  CHECK(collector.layers().size() > 4);
}

TEST_CASE("borders do not lie between two uses of a weight", "[segments]") {
  const RandomScope scope(6, 0, 0);
  const auto first = std::make_shared<nn::Linear>(6, 6);
  nn::Sequential model;
  model.add(first)
      .add(std::make_shared<nn::Relu>())
      .add(std::make_shared<nn::Linear>(first->weight()))
      .add(std::make_shared<nn::Linear>(6, 6));
  amp::ChainCollector collector(model);
  const Tensor loss = loss_of(model, 0);
  collector.begin_backward(loss);
  backward(loss);
  collector.end_backward();
  std::vector<std::string> borders;
  for (const auto& link : collector.links().links) borders.push_back(link.border);
  CHECK(borders == std::vector<std::string>{"loss", amp::kWholeModel, "3", "2"});
}

TEST_CASE("a module that is called twice, or not in every pass, has no border", "[segments]") {
  const RandomScope scope(6, 0, 0);
  const auto twice = std::make_shared<nn::Relu>();
  const auto sometimes = std::make_shared<nn::Relu>();
  nn::Sequential front;
  front.add("a", std::make_shared<nn::Linear>(6, 6))
      .add("twice", twice)
      .add("b", std::make_shared<nn::Linear>(6, 6))
      .add("again", twice)
      .add("sometimes", sometimes);
  amp::ChainCollector collector(front);
  for (int pass = 0; pass < 2; ++pass) {
    Tensor x = random_tensor({4, 6});
    for (const auto& [name, child] : front.children())
      if (pass == 0 || child != sometimes) x = (*child)(x);
    const Tensor loss = mean(square(x));
    collector.begin_backward(loss);
    backward(loss);
    collector.end_backward();
  }
  std::vector<std::string> borders;
  for (const auto& link : collector.links().links) borders.push_back(link.border);
  CHECK(borders == std::vector<std::string>{"loss", "b", "a"});
}

TEST_CASE("a border keeps gradients in f32 where the tensor's are", "[segments]") {
  for (const bool wide : {false, true}) {
    const Tensor x = leaf(Tensor::full({4}, 1.0));
    Tensor y;
    {
      const WideGradients scope(wide);
      y = cast(x, DType::f16);
    }
    backward(sum(mul(cast(amp::scale_gradient(y, -20), DType::f32), 0x1p-10)));
    CHECK(gradient_of(x).to_vector<float>()[0] == (wide ? 0x1p-30f : 0.0f));
  }
}

TEST_CASE("FP32 with segments is FP32 without, bit for bit", "[segments]") {
  const auto sgd = [](nn::Module& model) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<optim::Sgd>(model.parameters(),
                                        optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  };
  const auto adam = [](nn::Module& model) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = 0.01});
  };
  const auto lamb = [](nn::Module& model) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<optim::Lamb>(model.parameters(), optim::LambOptions{.lr = 0.01});
  };
  for (const optim::ScalerOptions& scaler :
       {optim::ScalerOptions::none(), optim::ScalerOptions::fixed(0x1p13)}) {
    for (const int accumulate : {1, 3}) {
      for (const std::optional<double> clip : {std::optional<double>(), std::optional(0.05)}) {
        optim::StepOptions options;
        options.scaler = scaler;
        options.accumulate = accumulate;
        options.clip_norm = clip;
        for (const auto& make : {+sgd, +adam, +lamb}) {
          const auto plain = trained(make, options, false);
          CHECK(plain == trained(make, options, true));
          CHECK(trained(make, options, false, Ends::unscaled) ==
                trained(make, options, true, Ends::unscaled));
        }
      }
    }
  }
}

TEST_CASE("segments that are not those of the backward pass are refused", "[segments]") {
  const auto model = network();
  const auto finish = [&](const std::vector<SegmentedLossScale::Segment>& segments) {
    const SegmentedLossScale borders(*model, segments);
    const amp::BorderScope scope(&borders);
    scope.finish(loss_of(*model, 0));
  };
  finish(three(*model, 1, 2));
  auto misplaced = three(*model, 1, 2);
  std::swap(misplaced[1].parameters, misplaced[2].parameters);
  CHECK_FAILS(UserError, finish(misplaced), "a parameter is used in segment");
  auto inside = three(*model, 1, 2);
  inside[2].border = "2.first";  // the shortcut's gradient is there, too
  CHECK_FAILS(UserError, finish(inside), "the gradient behind 2.first is not the only live one");
  auto unknown = three(*model, 1, 2);
  unknown[1].border = "7";
  CHECK_FAILS(UserError, finish(unknown), "no module 7");
  optim::Sgd sgd(model->parameters(), {.lr = 0.1});
  optim::Step step(*model, {&sgd});
  const std::vector<int> few{1}, far(step.buffers().slots().size(), 127);
  CHECK_FAILS(UserError, step.set_segment_scales(few), "1 scales for");
  CHECK_FAILS(UserError, step.set_segment_scales(far), "2^127");
}

// ---- FP16

namespace {

constexpr Index kRows = 1 << 15, kWidth = 4;
constexpr double kFar = 0x1p14;

class Body final : public nn::Module {
 public:
  Body()
      : linear_(
            add_child("linear", std::make_shared<nn::Linear>(8, kWidth, nn::LinearOptions{.bias = false}))) {}
  Tensor forward(const Tensor& x) override { return mul((*linear_)(x), kFar); }

 private:
  std::shared_ptr<nn::Linear> linear_;
};

class Spread final : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return mul(broadcast_to(x, {kRows, kWidth}), kFar); }
};

class Head final : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return mul(x, 1.0 / kFar); }
};

// One row of activations of about 2^-15 is made 2^15 rows of up to 2^14: gradients of the last are 2^-30, and
// add up to 2^12 in the first. FP16 reaches from 2^-25 to 2^16.
class Stretched {
 public:
  Stretched() {
    const RandomScope scope(9, 0, 0);
    model->add(std::make_shared<Body>()).add(std::make_shared<Spread>()).add(std::make_shared<Head>());
    for (const Parameter& parameter : model->parameters()) {
      for (Index i = 0; i < parameter.value().numel(); ++i) parameter.value().data<float>()[i] = 0x1p-20f;
      parameter.value().storage()->bump_version();
    }
    std::vector<float> values;
    for (Index i = 0; i < kRows * kWidth; ++i) values.push_back((i / kWidth) % 2 == 0 ? 1.6f : -0.6f);
    target = Tensor::from(values, {kRows, kWidth});
  }

  Tensor loss() { return mean(square(sub((*model)(input), target))); }
  // How far the output is from the mean of the targets, 0.5.
  double distance() {
    const NoGrad no_grad;
    return std::abs(mean((*model)(input)).item() - 0.5);
  }

  std::shared_ptr<nn::Sequential> model = std::make_shared<nn::Sequential>();
  Tensor input = Tensor::from(std::vector<float>(8, 1.0f), {1, 8}), target;
};

amp::Calibration calibrated(Stretched& stretched) {
  amp::ChainCollector collector(*stretched.model);
  const Tensor loss = stretched.loss();
  collector.begin_backward(loss);
  backward(loss);
  collector.end_backward();
  stretched.model->clear_gradients();
  return amp::segmented(collector.layers(), collector.links(), 1, optim::ScalerOptions::dynamic());
}

// The distance after 20 steps; FP32 without a scale.
double distance_after(std::optional<double> scale, bool segments = false) {
  Stretched stretched;
  std::optional<SegmentedLossScale> borders;
  optim::ScalerOptions scaler = scale ? optim::ScalerOptions::fixed(*scale) : optim::ScalerOptions::none();
  std::vector<int> relative;
  if (segments) {
    const amp::Calibration found = calibrated(stretched);
    REQUIRE(found.segments.size() == 2);
    CHECK(found.segments[1].border == "0");
    CHECK(found.segments[1].parameters == std::vector<std::string>{"0.linear.weight"});
    CHECK_THAT(to_string(found), Catch::Contains("2 segments, from the loss on 2^"));
    std::vector<SegmentedLossScale::Segment> given;
    for (const amp::ScaleSegment& segment : found.segments)
      given.push_back(
          {segment.border, segment.log2_scale - found.segments[0].log2_scale, segment.parameters});
    borders.emplace(*stretched.model, given);
    scaler = optim::ScalerOptions::fixed(std::exp2(found.segments[0].log2_scale));
  }
  optim::StepOptions options;
  options.scaler = scaler;
  optim::Sgd sgd(stretched.model->parameters(), {.lr = 0x1p-31});
  optim::Step step(*stretched.model, {&sgd}, options);
  if (borders) step.set_segment_scales(scales_of(step, *borders));
  const amp::ResolvedPrecision plan(scale || segments
                                        ? amp::Precision{.level = amp::Level::O1, .dtype = DType::f16}
                                        : amp::Precision::fp32());
  for (int t = 0; t < 20; ++t) {
    Tensor loss;
    {
      const amp::Autocast autocast(plan);
      const amp::BorderScope scope(borders ? &*borders : nullptr);
      loss = stretched.loss();
      scope.finish(loss);
    }
    step.backward(loss);
    step.apply();
  }
  return stretched.distance();
}

}  // namespace

TEST_CASE("segments train where each single scale fails", "[segments]") {
  CHECK(distance_after({}) < 0.01);
  CHECK(distance_after({}, true) < 0.01);
  for (int k = 0; k <= 16; ++k) {
    INFO("scale 2^" << k);
    CHECK(distance_after(std::exp2(k)) > 0.3);
  }
  Stretched stretched;
  amp::GradientCollector collector(*stretched.model);
  backward(stretched.loss());
  CHECK_FAILS(UserError, amp::calibration_of(collector.layers(), 1), "no loss scale fits all layers");
}

TEST_CASE("one segment is what calibration finds", "[segments]") {
  const auto model = network();
  amp::ChainCollector collector(*model);
  const Tensor loss = loss_of(*model, 0);
  collector.begin_backward(loss);
  backward(loss);
  collector.end_backward();
  const optim::ScalerOptions scaler = optim::ScalerOptions::dynamic();
  const amp::Calibration plain = amp::calibration_of(collector.layers(), 1),
                         found = amp::segmented(collector.layers(), collector.links(), 1, scaler);
  REQUIRE(found.segments.size() == 1);
  CHECK(found.window == plain.window);
  CHECK(amp::start_of(found, scaler) == amp::start_of(plain, scaler));
  CHECK(found.segments[0].parameters.size() == model->parameters().size());
  CHECK(to_string(found) == to_string(plain));
}

TEST_CASE("gradients that are looked at carry no scale of a segment", "[segments]") {
  const auto model = network();
  const auto seen = [&](bool segments, bool divided = true) {
    std::optional<SegmentedLossScale> borders;
    amp::GradientCollector collector(*model, 1.0, divided);
    if (segments) borders.emplace(*model, three(*model, 5, -3));
    const amp::BorderScope scope(borders ? &*borders : nullptr);
    backward(loss_of(*model, 0));
    model->clear_gradients();
    return collector.layers();
  };
  const auto plain = seen(false), segmented = seen(true), kept = seen(true, false);
  REQUIRE(plain.size() == segmented.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO(plain[i].name);
    CHECK(plain[i].name == segmented[i].name);
    CHECK(plain[i].activations.highest() == segmented[i].activations.highest());
    CHECK(plain[i].weights.highest() == segmented[i].weights.highest());
    if (plain[i].name == "0") CHECK(*kept[i].weights.highest() == *plain[i].weights.highest() - 3);
  }
}
