// In FP32, a power-of-two loss scale changes no bit of weights and norms.
#include <catch2/catch.hpp>

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

constexpr int kSteps = 20;
constexpr Index kBatch = 4, kExtent = 12;

struct Run {
  std::vector<double> losses, norms;
  int clipped = 0;
  // Masters, moments, statistics: all that is saved but the scale itself.
  std::vector<std::pair<std::string, std::vector<double>>> state;
  std::vector<double> final_gradient;  // carries the scale
};

struct Setup {
  bool residual = false, adam = false;
  double scale = 1.0;
  std::optional<double> clip_norm{};
  int accumulate = 1;
};

Run train(const Setup& setup) {
  const OneThread one;
  const RandomScope random(11, 0, 0);
  nn::ModulePtr model;
  if (setup.residual) {
    model = models::resnet(8, {.in_channels = 1, .num_classes = 10, .width = 4});
  } else {
    model = models::lenet5({.height = kExtent, .width = kExtent});
  }
  optim::Sgd sgd(model->parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  optim::AdamW adam(model->parameters(), {.lr = 1e-3});
  optim::Step step(*model, {setup.adam ? static_cast<optim::Optimizer*>(&adam) : &sgd},
                   {.scaler = optim::ScalerOptions::fixed(setup.scale),
                    .clip_norm = setup.clip_norm,
                    .accumulate = setup.accumulate});
  Run run;
  std::uint64_t batch = 0;
  for (int i = 0; i < kSteps; ++i) {
    for (int micro = 0; micro < setup.accumulate; ++micro, ++batch) {
      std::vector<std::int64_t> labels;
      for (Index k = 0; k < kBatch; ++k) labels.push_back((static_cast<Index>(batch) + 3 * k) % 10);
      const Tensor loss =
          cross_entropy((*model)(random_tensor({kBatch, kExtent, kExtent, 1}, DType::f32, batch)),
                        Tensor::from(labels, {kBatch}));
      run.losses.push_back(loss.item());
      step.backward(loss);
    }
    if (i + 1 == kSteps) run.final_gradient = step.buffers().gradients().to_vector<double>();
    step.apply();
    const optim::StepReport report = step.synchronize();
    CHECK_FALSE(report.skip);
    CHECK(report.loss_scale == setup.scale);
    run.norms.push_back(report.gradient_norm);
    run.clipped += report.clip_factor < 1.0;
  }
  for (const auto& [name, tensor] : step.state()) {
    if (name.starts_with("scaler.") || name == "step.values") continue;
    run.state.emplace_back(name, tensor.to_vector<double>());
  }
  return run;
}

}  // namespace

TEST_CASE("FP32 at a scale of 2^k equals FP32 at scale 1, bit for bit", "[scale_invariance]") {
  const bool residual = GENERATE(false, true), adam = GENERATE(false, true);
  for (const auto& [clip, accumulate] : {std::pair<std::optional<double>, int>{{}, 1}, {0.1, 1}, {0.1, 2}}) {
    Setup setup{.residual = residual, .adam = adam, .clip_norm = clip, .accumulate = accumulate};
    const Run plain = train(setup);
    CHECK(plain.losses.front() != plain.losses.back());
    if (clip) CHECK(plain.clipped > 0);
    for (const int k : {1, 8, 16}) {
      setup.scale = std::ldexp(1.0, k);
      CAPTURE(residual, adam, k, clip.value_or(0.0), accumulate);
      const Run scaled = train(setup);
      CHECK(scaled.losses == plain.losses);
      CHECK(scaled.norms == plain.norms);
      REQUIRE(scaled.state.size() == plain.state.size());
      for (std::size_t i = 0; i < plain.state.size(); ++i) {
        INFO(plain.state[i].first);
        CHECK((scaled.state[i] == plain.state[i]));
      }
      // The scale was there: the gradients carry it.
      bool carries = true;
      for (std::size_t i = 0; i < plain.final_gradient.size(); ++i)
        carries = carries && scaled.final_gradient[i] == setup.scale * plain.final_gradient[i];
      CHECK(carries);
    }
  }
}
