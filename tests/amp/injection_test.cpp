// A non-finite gradient in every parameter in turn: the step is skipped, all state keeps its bits, the scale
// halves, and the run continues as if there had been no step.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <limits>

#include "amp/autocast.h"
#include "autograd/leaf.h"
#include "autograd/ops/loss.h"
#include "core/random.h"
#include "models/lenet.h"
#include "models/resnet.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kScale = 2048.0, kRate = 0.01, kDecayOfRate = 0.998;
constexpr Index kBatch = 4, kExtent = 12;

using Bytes = std::vector<unsigned char>;

Bytes bytes_of(const Tensor& tensor) {
  const auto* first = static_cast<const unsigned char*>(tensor.raw());
  return {first, first + tensor.bytes()};
}

enum class Net { lenet5, residual };
enum class Rule { sgd, adamw };

struct Case {
  Net net;
  Rule rule;
  amp::Precision precision;
};

nn::ModulePtr new_model(Net net) {
  const RandomScope random(5, 0, 0);
  if (net == Net::lenet5) return models::lenet5({.height = kExtent, .width = kExtent});
  return std::make_shared<models::ResNet>(
      models::ResNetLayout{
          .blocks = {1, 1}, .stem = models::ResNetStem::cifar, .width = 4, .num_classes = 10},
      models::ResNetOptions{.in_channels = 1});
}

optim::StepOptions options_of(const Case& c) {
  optim::StepOptions options = amp::step_options(c.precision);
  options.schedule = optim::exponential(kRate, kDecayOfRate);
  options.ema = optim::EmaOptions{.decay = 0.9};
  return options;
}

// A training run whose gradients can be spoilt between backward and update.
class Training {
 public:
  explicit Training(const Case& c)
      : model_(new_model(c.net)),
        sgd_(model_->parameters(), {.momentum = 0.9, .weight_decay = 1e-4}),
        adamw_(model_->parameters(), {.weight_decay = 1e-2}),
        step_(*model_, {c.rule == Rule::sgd ? static_cast<optim::Optimizer*>(&sgd_) : &adamw_},
              options_of(c)),
        precision_(c.precision) {}

  void backward(std::int64_t batch) {
    Tensor loss;
    {
      const amp::Autocast autocast(precision_);
      std::vector<std::int64_t> labels;
      for (Index i = 0; i < kBatch; ++i) labels.push_back((batch + 3 * i) % 10);
      const auto seed = static_cast<std::uint64_t>(batch % 7);
      loss = cross_entropy((*model_)(random_tensor({kBatch, kExtent, kExtent, 1}, DType::f32, seed)),
                           Tensor::from(labels, {kBatch}));
    }
    step_.backward(loss);
  }

  optim::StepReport good() {
    backward(good_++);
    step_.apply();
    return step_.synchronize();
  }

  // As `good`, but with `value` in element `index` of a parameter's gradient.
  optim::StepReport spoilt(std::size_t parameter, Index index, float value) {
    backward(good_);
    const Tensor gradient = model_->parameters()[parameter].gradient();
    REQUIRE(gradient.defined());
    gradient.data<float>()[index] = value;
    step_.apply();
    return step_.synchronize();
  }

  // Everything that a skip leaves alone, by name: the saved state but scale and counters, and what is not
  // saved because it follows from it.
  std::vector<std::pair<std::string, Bytes>> kept() {
    std::vector<std::pair<std::string, Bytes>> result;
    for (const auto& [name, tensor] : step_.state()) {
      // The last: how many micro-batches there are, and what they were weighted with.
      if (name.starts_with("scaler.") || name == "step.counters" || name == "step.values" ||
          name == "step.accumulation")
        continue;
      result.emplace_back(name, bytes_of(tensor));
    }
    for (const nn::Statistic& statistic : model_->statistics()) {
      result.emplace_back(statistic.name + " live", bytes_of(statistic.live));
      result.emplace_back(statistic.name + " next", bytes_of(statistic.next));
    }
    for (const nn::Counter& counter : model_->counters()) {
      for (const std::int64_t count : {*counter.live, *counter.next}) {
        const auto* first = reinterpret_cast<const unsigned char*>(&count);
        result.emplace_back(counter.name, Bytes(first, first + sizeof(count)));
      }
    }
    if (precision_.lowers()) {
      for (const Parameter& parameter : model_->parameters())
        result.emplace_back(parameter.name() + " working copy",
                            bytes_of(working_copy(parameter, precision_.dtype)));
    }
    return result;
  }

  nn::Module& model() { return *model_; }

 private:
  nn::ModulePtr model_;
  optim::Sgd sgd_;
  optim::AdamW adamw_;
  optim::Step step_;
  amp::Precision precision_;
  std::int64_t good_ = 0;
};

void check_same(const std::vector<std::pair<std::string, Bytes>>& got,
                const std::vector<std::pair<std::string, Bytes>>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    FAIL_CHECK(got[i].first << " has changed");
  }
}

double rate_after(std::int64_t applied) {
  return kRate * std::pow(kDecayOfRate, static_cast<double>(applied));
}

// Injects into the first and the last element of every parameter, with two good steps after each, after which
// the scale has grown back. A run at the lower scale that never saw the bad steps ends with the same bits.
void check_injections(const Case& c) {
  const OneThread one;
  const bool scales = c.precision.scaler.moves();
  Training training(c);
  std::int64_t attempted = 0, applied = 0, skipped = 0;
  const std::size_t parameters = training.model().parameters().size();
  for (std::size_t p = 0; p < parameters; ++p) {
    const Parameter parameter = training.model().parameters()[p];
    for (const bool last : {false, true}) {
      const float value = (p + (last ? 1 : 0)) % 3 == 0 ? kNan : last ? -kInf : kInf;
      CAPTURE(parameter.name(), last, value);
      const auto before = training.kept();
      optim::StepReport report = training.spoilt(p, last ? parameter.value().numel() - 1 : 0, value);
      CHECK(report.skip);
      CHECK(report.attempted == ++attempted);
      CHECK(report.applied == applied);
      CHECK(report.skipped == ++skipped);
      CHECK(report.consecutive_skips == 1);
      CHECK(report.learning_rate == Approx(rate_after(applied)).epsilon(1e-12));
      CHECK(report.loss_scale == (scales ? kScale : 1.0));
      CHECK(report.next_loss_scale == (scales ? kScale / 2 : 1.0));
      check_same(training.kept(), before);
      for (int i = 0; i < 2; ++i) {
        report = training.good();
        CHECK_FALSE(report.skip);
        CHECK(report.attempted == ++attempted);
        CHECK(report.learning_rate == Approx(rate_after(applied)).epsilon(1e-12));
        CHECK(report.applied == ++applied);
        CHECK(report.consecutive_skips == 0);
        CHECK(report.loss_scale == (scales ? kScale / 2 : 1.0));
        CHECK(report.next_loss_scale == (scales && i == 1 ? kScale : report.loss_scale));
      }
      for (const nn::Counter& counter : training.model().counters()) CHECK(*counter.live == applied);
    }
  }
  CHECK(skipped == 2 * static_cast<std::int64_t>(parameters));

  Case clean = c;
  if (scales) clean.precision.scaler = optim::ScalerOptions::fixed(kScale / 2);
  Training undisturbed(clean);
  for (std::int64_t i = 0; i < applied; ++i) undisturbed.good();
  check_same(training.kept(), undisturbed.kept());
}

amp::Precision scaled(amp::Precision precision) {
  precision.scaler = optim::ScalerOptions::dynamic();
  precision.scaler.initial = kScale;
  precision.scaler.interval = 2;
  return precision;
}

}  // namespace

TEST_CASE("a non-finite gradient in any parameter of LeNet-5 skips the step, bit for bit", "[injection]") {
  const auto rule = GENERATE(Rule::sgd, Rule::adamw);
  check_injections({Net::lenet5, rule, scaled(amp::Precision::amp_fp16())});
  check_injections({Net::lenet5, rule, amp::Precision::amp_bf16()});
  check_injections({Net::lenet5, rule, amp::Precision::fp32()});
}

TEST_CASE("a non-finite gradient in any parameter of a residual network skips the step, bit for bit",
          "[injection]") {
  const auto rule = GENERATE(Rule::sgd, Rule::adamw);
  check_injections({Net::residual, rule, scaled(amp::Precision::amp_fp16())});
  check_injections({Net::residual, rule, scaled(amp::Precision::o2(DType::bf16))});
  check_injections({Net::residual, rule, amp::Precision::fp32()});
}

TEST_CASE("the scale grows after exactly N applied steps, and an overflow starts the count anew",
          "[injection]") {
  const OneThread one;
  constexpr int kInterval = 5;
  amp::Precision precision = scaled(amp::Precision::amp_fp16());
  precision.scaler.interval = kInterval;
  Training training({Net::lenet5, Rule::sgd, precision});
  double scale = kScale;
  const auto grows_after_interval = [&] {
    for (int i = 1; i <= kInterval; ++i) {
      const optim::StepReport report = training.good();
      CHECK(report.loss_scale == scale);
      if (i == kInterval) scale *= 2;
      CHECK(report.next_loss_scale == scale);
    }
  };
  grows_after_interval();
  for (int i = 1; i < kInterval; ++i) CHECK(training.good().next_loss_scale == scale);
  scale /= 2;  // one clean step short of a growth
  CHECK(training.spoilt(0, 0, kInf).next_loss_scale == scale);
  grows_after_interval();
  grows_after_interval();
}
