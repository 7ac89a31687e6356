// Autocast: the type of each op, of the tape and of gradients.
#include "amp/autocast.h"

#include <catch2/catch.hpp>
#include <thread>

#include "autograd/engine.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/softmax.h"
#include "core/backend.h"
#include "core/convert.h"
#include "core/error.h"
#include "core/options/check.h"
#include "core/random.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "nn/layers.h"
#include "optim/sgd.h"
#include "optim/step.h"

using namespace tandem;
using amp::Autocast;
using amp::Precision;
using Catch::Matchers::Contains;

namespace {

const DType kHalves[] = {DType::f16, DType::bf16};

Precision lowered(DType dtype) { return {.level = amp::Level::O1, .dtype = dtype}; }

Tensor ramp(const Shape& shape, double step = 0.037) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(step * (static_cast<double>(i % 61) - 30.0));
  return Tensor::from(values, shape);
}

Tensor rounded(const Tensor& x, DType dtype) { return cast(cast(x, dtype), DType::f32); }

}  // namespace

TEST_CASE("ops follow their cast rules", "[autocast]") {
  const Tensor x = ramp({4, 8}), w = ramp({6, 8});
  for (const DType dtype : kHalves) {
    const Autocast autocast(lowered(dtype));
    const Tensor y = linear(x, w, {});
    CHECK(y.dtype() == dtype);
    CHECK(relu(y).dtype() == dtype);
    CHECK(relu(x).dtype() == DType::f32);
    CHECK(softmax(y, 1).dtype() == DType::f32);
    CHECK(sum(y).dtype() == DType::f32);
    CHECK(exp(y).dtype() == DType::f32);
    CHECK(add(y, y).dtype() == dtype);
    CHECK(add(y, ramp({4, 6})).dtype() == DType::f32);
    CHECK(mse_loss(y, ramp({4, 6})).dtype() == DType::f32);
  }
  const Autocast autocast(Precision::amp_fp16());
  CHECK(add(cast(x, DType::f16), cast(x, DType::bf16)).dtype() == DType::f32);
}

TEST_CASE("a lowered op equals the op on operands that were cast by hand", "[autocast]") {
  const Tensor x = ramp({2, 6, 6, 16}), filter = ramp({16, 3, 3, 16}, 0.011);
  for (const DType dtype : kHalves) {
    const Tensor expected = conv2d(cast(x, dtype), cast(filter, dtype), {}, {.padding = {1, 1}});
    const Autocast autocast(lowered(dtype));
    const Tensor got = conv2d(x, filter, {}, {.padding = {1, 1}});
    CHECK(got.dtype() == dtype);
    CHECK(got.to_vector<float>() == expected.to_vector<float>());
  }
}

TEST_CASE("a norm gives its product the 16-bit type", "[autocast]") {
  const Tensor x = ramp({3, 8}), scale = ramp({8});
  const auto norms = [&](NormResult result) {
    return std::pair{layer_norm(x, scale, {}, 1, 1e-5, result), rms_norm(x, scale, 1e-5, result)};
  };
  const auto [wide, wide_rms] = norms(NormResult::for_product);
  CHECK(wide.dtype() == DType::f32);
  CHECK(wide_rms.dtype() == DType::f32);
  {
    const Autocast autocast(Precision::amp_bf16());
    const auto [narrow, narrow_rms] = norms(NormResult::for_product);
    CHECK(narrow.to_vector<double>() == cast(wide, DType::bf16).to_vector<double>());
    CHECK(narrow.dtype() == DType::bf16);
    CHECK(narrow_rms.dtype() == DType::bf16);
    CHECK(norms(NormResult::wide).first.dtype() == DType::f32);
    CHECK(residual_norm(x, cast(x, DType::bf16), scale).normed.dtype() == DType::bf16);
    CHECK(residual_norm(x, cast(x, DType::bf16), scale).sum.dtype() == DType::f32);
  }
  Precision denied = Precision::amp_bf16();
  denied.lists.deny = {"layer_norm"};
  const Autocast autocast(denied);
  CHECK(norms(NormResult::for_product).first.dtype() == DType::f32);
}

TEST_CASE("f64 and integers are never touched", "[autocast]") {
  const Autocast autocast(Precision::amp_bf16());
  const Tensor x = cast(ramp({4, 8}), DType::f64);
  CHECK(matmul(x, cast(ramp({8, 3}), DType::f64)).dtype() == DType::f64);
  CHECK(sum(x).dtype() == DType::f64);
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 2, 1, 1}, {4});
  CHECK(cross_entropy(ramp({4, 3}), labels).dtype() == DType::f32);
}

TEST_CASE("scopes nest, are per thread, and end with an exception", "[autocast]") {
  const Tensor x = ramp({2, 4}), w = ramp({3, 4});
  const auto type = [&] { return linear(x, w, {}).dtype(); };
  {
    const Autocast outer(Precision::amp_fp16());
    {
      const Autocast inner(Precision::amp_bf16());
      CHECK(type() == DType::bf16);
      const Autocast off = Autocast::off();
      CHECK(type() == DType::f32);
    }
    CHECK(type() == DType::f16);
    try {
      const Autocast inner(Precision::amp_bf16());
      throw std::runtime_error("out");
    } catch (const std::runtime_error&) {
    }
    CHECK(type() == DType::f16);
    DType elsewhere = DType::boolean;
    std::thread([&] { elsewhere = type(); }).join();
    CHECK(elsewhere == DType::f32);
  }
  CHECK(type() == DType::f32);
}

TEST_CASE("backward mirrors forward, and weight gradients arrive in f32", "[autocast]") {
  for (const DType dtype : kHalves) {
    const Parameter w(ramp({6, 8}));
    const Tensor x = leaf(ramp({4, 8}));
    Tensor y;
    {
      const Autocast autocast(lowered(dtype));
      y = linear(x, w, {});
    }
    const Tensor dy = ramp({4, 6}, 0.0501);
    const Tensor seed = cast(dy, dtype);
    backward(std::span(&y, 1), std::span(&seed, 1));
    REQUIRE(w.gradient().dtype() == DType::f32);
    const Tensor expected = matmul(cast(seed, DType::f32), rounded(x.detach(), dtype), true);
    const auto got = w.gradient().to_vector<double>(), want = expected.to_vector<double>();
    bool finer = false;  // than 16 bits can say
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == Approx(want[i]).epsilon(1e-5).margin(1e-6));
      finer |= got[i] != rounded(Tensor::scalar(got[i]), dtype).item();
    }
    CHECK(finer);
    CHECK(gradient_of(x).dtype() == DType::f32);
    CHECK(gradient_of(x).to_vector<float>() == rounded(gradient_of(x), dtype).to_vector<float>());
  }
}

TEST_CASE("weight gradients can be rounded to 16 bits first", "[autocast]") {
  const Parameter w(ramp({6, 8}));
  Tensor y;
  {
    Precision precision = Precision::amp_bf16();
    precision.round_weight_gradients = true;
    const Autocast autocast(precision);
    y = linear(ramp({4, 8}), w, {});
  }
  const Tensor seed = cast(ramp({4, 6}, 0.0501), DType::bf16);
  backward(std::span(&y, 1), std::span(&seed, 1));
  REQUIRE(w.gradient().dtype() == DType::f32);
  CHECK(w.gradient().to_vector<float>() == rounded(w.gradient(), DType::bf16).to_vector<float>());
}

TEST_CASE("a filter gradient that is rounded is written in 16 bits", "[autocast]") {
  struct : OpObserver {
    void after_forward(const OpInfo& op, std::span<const Tensor>, std::span<const Tensor> outputs) override {
      if (std::string_view(op.name) == "conv2d_filter_gradient") written.push_back(outputs[0].dtype());
    }
    std::vector<DType> written;
  } observer;
  std::vector<std::vector<float>> gradients;
  for (const bool rounds : {false, true}) {
    const Parameter filter(ramp({4, 3, 3, 2}));
    Tensor y;
    {
      Precision precision = Precision::amp_bf16();
      precision.round_weight_gradients = rounds;
      const Autocast autocast(precision);
      y = conv2d(ramp({2, 5, 5, 2}), filter, {});
    }
    const Tensor seed = cast(ramp(y.shape(), 0.0501), DType::bf16);
    const ObserverScope observed(observer);
    backward(std::span(&y, 1), std::span(&seed, 1));
    REQUIRE(filter.gradient().dtype() == DType::f32);
    gradients.push_back(rounded(filter.gradient(), DType::bf16).to_vector<float>());
    if (rounds) CHECK(filter.gradient().to_vector<float>() == gradients.back());
  }
  CHECK(observer.written == std::vector{DType::f32, DType::bf16});
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("a parameter is cast once, and again when its master has changed", "[autocast]") {
  const Parameter w(ramp({6, 8}));
  const Tensor first = working_copy(w, DType::f16), second = working_copy(w, DType::f16);
  CHECK(first.is_same(second));
  CHECK(first.edge().node == w.tensor().edge().node);
  CHECK(first.to_vector<float>() == rounded(w.value(), DType::f16).to_vector<float>());
  w.value().data<float>()[0] = 3.0f;
  w.value().storage()->bump_version();
  CHECK(working_copy(w, DType::f16).to_vector<float>()[0] == 3.0f);
  CHECK_FALSE(working_copy(ramp({6, 8}), DType::f16).defined());
  CHECK_FALSE(working_copy(w.value().rows(1, 2), DType::f16).defined());
}

TEST_CASE("some rows of a parameter do not take the place of its copy", "[autocast]") {
  const Parameter w(ramp({6, 8}));
  CHECK_FALSE(working_copy(w.value().rows(0, 2), DType::f16).defined());
  const Tensor copy = working_copy(w, DType::f16);
  REQUIRE(copy.defined());
  CHECK(copy.shape() == Shape{6, 8});
  CHECK(copy.to_vector<float>() == rounded(w.value(), DType::f16).to_vector<float>());
  CHECK_FALSE(working_copy(w.value().rows(0, 2), DType::f16).defined());
}

TEST_CASE("frozen parameters and evaluation use the working copy too", "[autocast]") {
  Parameter w(ramp({6, 8}));
  const Tensor expected = linear(cast(ramp({4, 8}), DType::f16), cast(w.value(), DType::f16), {});
  w.set_trainable(false);
  const Autocast autocast(Precision::amp_fp16());
  const Tensor y = linear(ramp({4, 8}), w, {});
  CHECK_FALSE(y.requires_grad());
  CHECK(y.to_vector<float>() == expected.to_vector<float>());
  // A copy first made without a tape carries gradients later.
  w.set_trainable(true);
  CHECK(linear(ramp({4, 8}), w, {}).requires_grad());
}

TEST_CASE("the update writes the working copies", "[autocast]") {
  for (const DType dtype : kHalves) {
    const auto model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
    optim::Sgd optimizer(model->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::Step step(*model, {&optimizer}, {.working = dtype});
    const amp::ResolvedPrecision plan(lowered(dtype), *model);
    const Tensor images = ramp({4, 12, 12, 1});
    const Tensor labels = Tensor::from(std::vector<std::int64_t>{1, 3, 5, 9}, {4});
    for (int i = 0; i < 3; ++i) {
      Tensor loss;
      {
        const Autocast autocast(plan);
        loss = cross_entropy((*model)(images), labels);
      }
      step.backward(loss);
      const Tensor held = working_copy(step.buffers().slots()[0].parameter, dtype);
      step.apply();
      const std::uint64_t version = held.storage()->version();
      for (const auto& slot : step.buffers().slots()) {
        const Tensor copy = working_copy(slot.parameter, dtype);
        CHECK(held.storage()->version() == version);  // written by the update, not cast once more
        const Tensor again = cast(slot.parameter.value(), dtype);
        INFO(slot.parameter.name() << " after step " << i + 1);
        CHECK(copy.to_vector<float>() == again.to_vector<float>());
      }
    }
    CHECK(step.synchronize().applied == 3);
  }
}

TEST_CASE("lists move ops, and refuse what does not exist", "[autocast]") {
  Precision precision = Precision::amp_bf16();
  precision.lists = {.allow = {"relu"}, .deny = {"linear"}, .infer = {"softmax"}};
  {
    const Autocast autocast(precision);
    const Tensor x = ramp({4, 8});
    CHECK(linear(x, ramp({6, 8}), {}).dtype() == DType::f32);
    CHECK(relu(x).dtype() == DType::bf16);
    CHECK(softmax(relu(x), 1).dtype() == DType::bf16);
  }
  precision.lists = {.allow = {"relo"}, .deny = {}, .infer = {}};
  CHECK_THROWS_WITH(Autocast(precision), Contains("relo") && Contains("did you mean \"relu\""));
  precision.lists = {.allow = {"relu"}, .deny = {"relu"}, .infer = {}};
  CHECK_THROWS_WITH(Autocast(precision), Contains("is listed twice"));
  precision.lists = {.allow = {"cast"}, .deny = {}, .infer = {}};
  try {
    const Autocast autocast(precision);
    FAIL("cast is in a list");
  } catch (const options::OptionError& error) {
    CHECK(error.path() == "lists.allow");
    CHECK(std::string(error.what()) == "[precision] lists.allow: " + error.detail());
  }
  CHECK_THROWS_WITH(amp::check({.level = amp::Level::O1, .dtype = DType::f32}), Contains("f16 or bf16"));
}

TEST_CASE("binary cross entropy on probabilities is banned in 16 bits", "[autocast]") {
  const Tensor p = Tensor::full({4}, 0.25);
  CHECK_NOTHROW(bce_loss(p, p));
  const Autocast autocast(Precision::amp_fp16());
  CHECK_THROWS_WITH(bce_loss(p, p), Contains("logits"));
}

TEST_CASE("layers can run in another precision", "[autocast]") {
  const auto model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
  model->eval();
  struct Types final : nn::ModuleObserver {
    std::map<const nn::Module*, DType> of;
    void leave(nn::Module& module, const Tensor& output) override { of[&module] = output.dtype(); }
  };
  Precision precision = Precision::amp_bf16();
  precision.layers = {{"^layer2", DType::f32}};
  Types types;
  {
    const Autocast autocast(precision, *model);
    const nn::ModuleObserverScope observed(types);
    (*model)(ramp({2, 12, 12, 1}));
  }
  CHECK(types.of.at(model->find("layer1")) == DType::bf16);
  CHECK(types.of.at(model->find("layer2")) == DType::f32);
  CHECK(types.of.at(model->find("layer3")) == DType::bf16);
  // What the lists move is moved in layers of the other 16-bit type, too.
  precision.layers = {{"^fc", DType::f16}};
  for (const bool denied : {false, true}) {
    if (denied) precision.lists.deny = {"linear"};
    const Autocast autocast(precision, *model);
    CHECK((*model)(ramp({2, 12, 12, 1})).dtype() == (denied ? DType::f32 : DType::f16));
  }
  precision.lists = {};
  precision.layers = {{"layer9", DType::f32}};
  CHECK_THROWS_WITH(Autocast(precision, *model), Contains("matches none"));
  CHECK_THROWS_WITH(Autocast(precision), Contains("need the model"));
  precision.layers = {{"(", DType::f32}};
  CHECK_THROWS_WITH(amp::check(precision), Contains("regular expression"));
}

TEST_CASE("a scope inside a scope with rules for layers silences them", "[autocast]") {
  const auto fc = std::make_shared<nn::Linear>(4, 4);
  nn::Sequential model{fc};
  Precision precision = Precision::amp_bf16();
  precision.layers = {{"^0$", DType::f16}};
  const Tensor x = Tensor::full({2, 4}, 0.5);
  const amp::Autocast outer(precision, model);
  CHECK(model(x).dtype() == DType::f16);
  {
    const amp::Autocast off = amp::Autocast::off();
    CHECK(model(x).dtype() == DType::f32);
  }
  {
    const amp::Autocast inner(Precision::amp_bf16());
    CHECK(model(x).dtype() == DType::bf16);
  }
  CHECK(model(x).dtype() == DType::f16);
}

TEST_CASE("at O2 everything but the f32 ops is 16-bit", "[autocast]") {
  const Autocast autocast(Precision{.level = amp::Level::O2, .dtype = DType::f16});
  const Tensor x = ramp({4, 8});
  CHECK(relu(x).dtype() == DType::f16);
  CHECK(add(x, x).dtype() == DType::f16);
  CHECK(softmax(x, 1).dtype() == DType::f32);
}

TEST_CASE("16-bit batch norm rounds statistics and parameters; f32 by default", "[autocast]") {
  for (const bool lower : {false, true}) {
    CAPTURE(lower);
    Precision precision = Precision::o2(DType::f16);
    precision.scaler = {};
    precision.lower_batch_norm = lower;
    const RandomScope random(3, 0, 0);
    const auto model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
    // 1 + 2^-12 is not on the grid of f16: a forward pass that rounds it sees 1.
    for (const Parameter& parameter : model->parameters())
      if (parameter.name() == "bn1.weight") backend_for({}).fill(parameter.value(), 1.0 + 0x1p-12);
    optim::Sgd optimizer(model->parameters(), {.lr = 0.05});
    optim::Step step(*model, {&optimizer}, amp::step_options(precision));
    const auto output = [&] {
      const Autocast autocast(precision);
      return (*model)(ramp({8, 12, 12, 1}));
    };
    step.backward(
        cross_entropy(output(), Tensor::from(std::vector<std::int64_t>{1, 3, 5, 9, 0, 2, 4, 6}, {8})));
    step.apply();
    bool rounded = true;
    for (const nn::Statistic& statistic : model->statistics())
      for (const float value : statistic.live.to_vector<float>())
        rounded = rounded && widen(convert<Half>(value)) == value;
    CHECK(rounded == lower);

    struct Gamma final : OpObserver {
      float seen = 0.0f;
      void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                         std::span<const Tensor>) override {
        if (seen == 0.0f && std::string(info.name) == "batch_norm_train")
          seen = inputs[2].to_vector<float>()[0];
      }
    } gamma;
    for (const Parameter& parameter : model->parameters())
      if (parameter.name() == "bn1.weight") {
        backend_for({}).fill(parameter.value(), 1.0 + 0x1p-12);
        parameter.value().storage()->bump_version();
      }
    {
      const ObserverScope observed(gamma);
      output();
    }
    CHECK(gamma.seen == (lower ? 1.0f : 1.0f + 0x1p-12f));
  }
}

TEST_CASE("parts of a precision that contradict each other are refused", "[autocast]") {
  const auto refused = [](Precision precision, auto change, const char* reason) {
    change(precision);
    CHECK_THROWS_WITH(amp::check(precision), Contains(reason));
  };
  refused(
      Precision::fp32(), [](Precision& p) { p.scaler = optim::ScalerOptions::dynamic(); },
      "a scaler with FP32");
  refused(
      Precision::fp32(), [](Precision& p) { p.masters = false; }, "FP32 throughout");
  refused(
      Precision::o2(DType::f16), [](Precision& p) { p.masters = false; }, "O3 is O2 without them");
  refused(
      Precision::o3(DType::f16), [](Precision& p) { p.masters = true; }, "O2 is O3 with them");
  refused(
      Precision::amp_bf16(), [](Precision& p) { p.stochastic_rounding = true; }, "masters are not rounded");
  refused(
      Precision::amp_bf16(), [](Precision& p) { p.state_dtype = DType::i64; }, "state_dtype");
  refused(
      Precision::amp_bf16(), [](Precision& p) { p.dtype = DType::f32; }, "dtype must be");
  refused(
      Precision::amp_fp16(), [](Precision& p) { p.scaler.initial = 7; }, "power of two");
}

TEST_CASE("a mixed-precision step follows the f32 one", "[autocast]") {
  const auto losses = [](const Precision& precision) {
    const RandomScope random(7, 0, 0);
    const auto model = models::resnet(8, {.in_channels = 1, .num_classes = 10});
    optim::Sgd optimizer(model->parameters(), {.lr = 0.05, .momentum = 0.9});
    optim::Step step(*model, {&optimizer}, amp::step_options(precision, 7));
    std::vector<double> values;
    for (int i = 0; i < 10; ++i) {
      Tensor loss;
      {
        const Autocast autocast(precision);
        loss = cross_entropy((*model)(ramp({8, 12, 12, 1}, 0.011 * (1 + i % 3))),
                             Tensor::from(std::vector<std::int64_t>{1, 3, 5, 9, 0, 2, 4, 6}, {8}));
      }
      step.backward(loss);
      step.apply();
      values.push_back(loss.item());
    }
    return values;
  };
  // Roundings of 2⁻¹¹ and 2⁻⁸ grow with every step.
  const auto wide = losses(Precision::fp32());
  Precision fp16 = Precision::amp_fp16(), fp16_o2 = Precision::o2(DType::f16),
            o3 = Precision::o3(DType::bf16);
  fp16.scaler.initial = fp16_o2.scaler.initial = 1024.0;
  o3.stochastic_rounding = true;
  for (const auto& [precision, tolerance] :
       {std::pair{fp16, 3e-2}, std::pair{Precision::amp_bf16(), 1e-1}, std::pair{fp16_o2, 5e-2},
        std::pair{Precision::o2(DType::bf16), 1e-1}, std::pair{o3, 2e-1}}) {
    CAPTURE(static_cast<int>(precision.level), name_of(precision.dtype));
    const auto narrow = losses(precision);
    CHECK(narrow == losses(precision));  // bit for bit
    CHECK(narrow != wide);
    for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == Approx(wide[i]).epsilon(tolerance));
  }
}
