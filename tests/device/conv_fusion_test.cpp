// Convolutions that return sums of their output, batch norm with these sums, and gradients accumulated in
// place. A device may provide no sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "amp/autocast.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "core/error.h"
#include "core/kernels/conv.h"
#include "models/resnet.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"

using namespace tandem;
using namespace tandem::test;

namespace {

struct Operands {
  Tensor x, filter;
};

Operands operands(DType dtype, const Conv2dOptions& options = {}) {
  return {random_tensor({5, 9, 8, 16}, dtype, 1), random_tensor({24, 3, 3, 16 / options.groups}, dtype, 2)};
}

// What a device gives for `operands`, absent where nothing.
Tensor sums_of(const Operands& operands, const Conv2dOptions& options = {}, const Tensor& bias = {}) {
  Tensor sums;
  conv2d(operands.x, operands.filter, bias, options, &sums);
  return sums;
}

}  // namespace

TEST_CASE("a convolution's sums are those of what it wrote", "[device]") {
  const RulesScope timed(kTimed);
  for (const Conv2dOptions& options : {Conv2dOptions{}, Conv2dOptions{.stride = {2, 2}, .padding = {1, 1}},
                                       Conv2dOptions{.padding = {1, 0}}}) {
    const Operands of = operands(DType::f16);
    Tensor sums;
    const Tensor y = conv2d(of.x, of.filter, {}, options, &sums);
    const Tensor plain = conv2d(of.x, of.filter, {}, options);
    const auto written = y.to_vector<double>(), expected = plain.to_vector<double>();
    for (std::size_t i = 0; i < written.size(); ++i)
      REQUIRE(written[i] == Approx(expected[i]).epsilon(2e-3).margin(2e-3));
    if (emulator()) REQUIRE(sums.defined());
    if (!sums.defined()) continue;
    REQUIRE(sums.shape() == Shape{2, 24});
    REQUIRE(sums.dtype() == DType::f32);
    const auto got = sums.to_vector<double>();
    std::vector<double> sum(24), squares(24), size(24);
    for (std::size_t i = 0; i < written.size(); ++i) {
      sum[i % 24] += written[i];
      size[i % 24] += std::abs(written[i]);
      squares[i % 24] += written[i] * written[i];
    }
    for (std::size_t c = 0; c < 24; ++c) {
      CHECK(std::abs(got[c] - sum[c]) <= 1e-3 * size[c]);  // they may be taken before y is rounded
      CHECK(got[24 + c] == Approx(squares[c]).epsilon(1e-3));
    }
  }
}

TEST_CASE("sums are given for f16 alone, without a bias, where timing may decide", "[device]") {
  const RulesScope timed(kTimed);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    CHECK_FALSE(sums_of(operands(dtype)).defined());
  CHECK_FALSE(sums_of(operands(DType::f16), {}, random_tensor({24}, DType::f32, 3)).defined());
  for (const ComputeRules& rules : {ComputeRules{.deterministic = true}, ComputeRules{.autotune = false}}) {
    const RulesScope untimed(rules);
    CHECK_FALSE(sums_of(operands(DType::f16)).defined());
  }
  const RulesScope again(kTimed);
  const Operands odd{random_tensor({2, 5, 5, 8}, DType::f16, 1), random_tensor({6, 3, 3, 8}, DType::f16, 2)};
  CHECK_FALSE(sums_of(odd).defined());  // Σ y² would not be aligned
  if (emulator()) CHECK(sums_of(operands(DType::f16)).defined());
}

TEST_CASE("wrong sums are found out, and y is right all the same", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const RulesScope timed(kTimed);
  const Operands of{random_tensor({3, 7, 6, 8}, DType::f16, 1), random_tensor({16, 3, 3, 8}, DType::f16, 2)};
  emulated.set_wrong_fusions(true);
  Tensor sums;
  const Tensor y = conv2d(of.x, of.filter, {}, {}, &sums);
  const Tensor again = conv2d(of.x, of.filter, {}, {}, &sums);
  backend_under_test().synchronize();
  emulated.set_wrong_fusions(false);
  CHECK_FALSE(sums.defined());
  const auto expected = conv2d(of.x, of.filter).to_vector<double>();
  CHECK(y.to_vector<double>() == expected);
  CHECK(again.to_vector<double>() == expected);
  CHECK_FALSE(sums_of(of).defined());  // the decision stays
}

TEST_CASE("operands of zeros or infinities decide no choice", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const RulesScope timed(kTimed);
  Backend& backend = backend_under_test();
  const Tensor filter = random_tensor({16, 3, 3, 8}, DType::f16, 2);
  for (const double value : {0.0, std::numeric_limits<double>::infinity()}) {
    const TensorOptions f16{.dtype = DType::f16, .device = test_device()};
    CHECK_FALSE(sums_of({Tensor::full({2, 6, 6, 8}, value, f16), filter}).defined());
    const Tensor dx = random_tensor({2, 6, 6, 8}, DType::f16, 3);
    const auto before = dx.to_vector<double>();
    backend.conv().conv2d_input_gradient(Tensor::full({2, 4, 4, 16}, value, f16), filter, dx, {}, true);
    if (value == 0.0) CHECK(dx.to_vector<double>() == before);
  }
  CHECK(sums_of({random_tensor({2, 6, 6, 8}, DType::f16, 1), filter}).defined());
  const auto add = [&] {
    const std::uint64_t before = emulated.counts().adding_convolutions;
    backend.conv().conv2d_input_gradient(random_tensor({2, 4, 4, 16}, DType::f16, 4), filter,
                                         random_tensor({2, 6, 6, 8}, DType::f16, 3), {}, true);
    return emulated.counts().adding_convolutions - before;
  };
  CHECK(add() > 2);  // apart, in place, timed, and for good
  CHECK(add() == 1);
}

TEST_CASE("batch norm with sums is batch norm", "[device]") {
  const Index rows = 4 * 7 * 5, channels = 24;
  for (const bool relu : {false, true}) {
    const Tensor x = random_tensor({4, 7, 5, channels}, DType::f16, 7);
    const Tensor gamma = random_tensor({channels}, DType::f32, 8),
                 beta = random_tensor({channels}, DType::f32, 9);
    std::vector<double> both(2 * channels);
    const auto values = x.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      both[i % channels] += values[i];
      both[channels + i % channels] += values[i] * values[i];
    }
    const auto statistic = [&] { return Tensor::full({channels}, 0.5, {.device = test_device()}); };
    const auto run = [&](const Tensor& sums) {
      const BatchNormStatistics statistics{statistic(), statistic(), statistic(), statistic()};
      const BatchNormOptions options{.relu = relu, .sums = sums};
      const Tensor y = batch_norm_train(x, gamma, beta, statistics, options, {});
      return std::array{y.to_vector<double>(), statistics.next_mean.to_vector<double>(),
                        statistics.next_var.to_vector<double>()};
    };
    const std::vector<float> given(both.begin(), both.end());
    const auto with = run(Tensor::from(given, {2, channels}, test_device())), without = run({});
    REQUIRE(rows * channels == static_cast<Index>(with[0].size()));
    for (std::size_t k = 0; k < with.size(); ++k) {
      for (std::size_t i = 0; i < with[k].size(); ++i)
        REQUIRE(with[k][i] == Approx(without[k][i]).epsilon(k == 0 ? 1e-3 : 1e-5).margin(1e-5));
    }
  }
}

TEST_CASE("a gradient is added where it lands, rounded once", "[device]") {
  Backend& backend = backend_under_test();
  const Emulator emulated = emulator();
  const auto adding = [&] { return emulated ? emulated.counts().adding_convolutions : 0; };
  const Conv2dOptions options{.stride = {2, 1}, .padding = {1, 1}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    INFO(name_of(dtype));
    const Tensor dy = random_tensor({3, 5, 8, 24}, dtype, 1),
                 filter = random_tensor({24, 3, 3, 16}, dtype, 2);
    const auto added = [&](const ComputeRules& rules) {
      const RulesScope scope(rules);
      const Tensor dx = random_tensor({3, 9, 8, 16}, dtype, 3);
      backend.conv().conv2d_input_gradient(dy, filter, dx, options, true);
      return dx.to_vector<double>();
    };
    const auto expected = added({.allow_tf32 = false, .deterministic = true});
    for (int time = 0; time < 3; ++time) {
      const std::uint64_t before = adding();
      const auto got = added(kTimed);
      if (emulated) {
        REQUIRE(got == expected);
        if (time > 0) CHECK(adding() - before == 1);
      }
      for (std::size_t i = 0; i < got.size(); ++i)
        REQUIRE(got[i] == Approx(expected[i]).epsilon(1e-2).margin(1e-2));
    }
  }
}

TEST_CASE("an addition that cannot be done in place is found out, and dx is right all the same", "[device]") {
  Backend& backend = backend_under_test();
  const Emulator emulated = emulator();
  if (!emulated) return;
  const RulesScope timed(kTimed);
  // Not finite in places, as gradients are at too high a loss scale.
  auto values = random_values(2 * 6 * 5 * 24, 1);
  values[7] = std::numeric_limits<double>::infinity();
  const Tensor dy = tensor_of(values, {2, 6, 5, 24}, DType::f16);
  const Tensor filter = random_tensor({24, 3, 3, 8}, DType::f16, 2);
  const auto added = [&] {
    const Tensor dx = random_tensor({2, 8, 7, 8}, DType::f16, 3);
    backend.conv().conv2d_input_gradient(dy, filter, dx, {}, true);
    backend.synchronize();
    return dx.to_vector<double>();
  };
  const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::ranges::equal(a, b,
                              [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
  };
  emulated.set_wrong_fusions(true);
  const auto first = added();
  const std::uint64_t before = emulated.counts().adding_convolutions;
  const auto second = added();
  CHECK(emulated.counts().adding_convolutions == before);
  emulated.set_wrong_fusions(false);
  const RulesScope separate({.allow_tf32 = false, .deterministic = true});
  const auto expected = added();
  CHECK(same(first, expected));
  CHECK(same(second, expected));
}

TEST_CASE("a residual network's branches are added by their convolutions", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const RulesScope timed(kTimed);
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    Training training({"precision=" + precision, R"(model={"name": "resnet20", "width": 8})"},
                      train::GraphUse::off);
    training.run(0);
    const std::uint64_t before = emulated.counts().adding_convolutions;
    training.run(1);
    CHECK(emulated.counts().adding_convolutions - before == 9);  // one a block
  }
}

TEST_CASE("a residual network in f16 asks for sums before every batch norm", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const RulesScope timed(kTimed);
  const auto model = models::resnet(8, {.in_channels = 8, .width = 8});
  model->to(test_device());
  const Tensor x = random_tensor({4, 8, 8, 8}, DType::f32, 4);
  const auto asked = [&] {
    const std::uint64_t before = emulated.counts().summing_convolutions;
    (*model)(x);
    return emulated.counts().summing_convolutions - before;
  };
  CHECK(asked() == 0);  // f32
  const amp::Autocast f16(amp::Precision::amp_fp16());
  asked();              // tries shapes out
  CHECK(asked() == 9);  // 7 convolutions and 2 projections
  model->eval();
  CHECK(asked() == 0);
}

TEST_CASE("layers in a row ask for sums as well", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const RulesScope timed(kTimed);
  nn::Sequential row{std::make_shared<nn::Conv2d>(8, 16, 3, nn::ConvOptions{.bias = false}),
                     std::make_shared<nn::BatchNorm>(16),
                     std::make_shared<nn::Conv2d>(16, 16, 3, nn::ConvOptions{.bias = false})};
  row.to(test_device());
  const Tensor x = random_tensor({4, 9, 9, 8}, DType::f32, 4);
  const amp::Autocast f16(amp::Precision::amp_fp16());
  row(x);
  const std::uint64_t before = emulated.counts().summing_convolutions;
  CHECK(row(x).shape() == Shape{4, 5, 5, 16});
  CHECK(emulated.counts().summing_convolutions - before == 1);  // no batch norm behind the second
}

TEST_CASE("a residual network learns the same with sums, and has the same bits recorded", "[device]") {
  const std::vector<std::string> settings{"precision=amp_fp16", R"(model={"name": "resnet20", "width": 8})",
                                          "optimizer={\"name\": \"sgd\", \"lr\": 0.0003}"};
  constexpr int kSteps = 6;
  const auto losses = [&](const ComputeRules& rules, train::GraphUse graphs) {
    const RulesScope scope(rules);
    Training training(settings, graphs);
    std::vector<double> result;
    for (std::uint64_t i = 0; i < kSteps; ++i) result.push_back(training.run(i).loss);
    CHECK(training.runner->recorded() ==
          (graphs == train::GraphUse::automatic && backend_under_test().records()));
    return result;
  };
  const Emulator emulated = emulator();
  const auto summed = [&] { return emulated ? emulated.counts().summing_convolutions : 0; };
  const std::uint64_t before = summed();
  const auto with = losses(kTimed, train::GraphUse::off);
  // 19 convolutions and 2 projections; shapes are tried out first.
  if (emulated) CHECK(summed() - before >= kSteps * 21);
  if (emulated) CHECK(losses(kTimed, train::GraphUse::automatic) == with);
  const auto without = losses({.allow_tf32 = false, .deterministic = true}, train::GraphUse::off);
  for (std::size_t i = 0; i < with.size(); ++i) CHECK(with[i] == Approx(without[i]).epsilon(2e-3));
}
