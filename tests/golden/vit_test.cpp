// A small Vision Transformer against torchvision's in FP64: logits and every gradient of the first step, and
// the losses of ten steps in FP32 and in mixed precision. tests/golden/vit.py makes the values; weights,
// images and labels come from the same hash here.
#include "models/vit.h"

#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/loss.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/golden/gradients.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

constexpr Index kSteps = 10, kBatch = 4, kSide = 12, kClasses = 10;

// PyTorch's own runs are this far from its FP64 run (the metadata of the file): in FP32 logits 3e-7,
// gradients 2e-6, losses 6e-7; in BF16 losses 9e-3, in FP16 1e-3.
constexpr double kFirst = 1e-5;
constexpr double kLosses = 5e-6;
constexpr double kBf16Losses = 2.5e-2, kF16Losses = 4e-3;

struct Run {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const Run&, const Run&) = default;
};

// Compares the first step with `golden` where one is given.
Run train(const amp::Precision& precision, const safetensors::File* golden) {
  models::Vit model({.num_classes = kClasses,
                     .image = {kSide, kSide},
                     .patch = 4,
                     .layers = 2,
                     .width = 16,
                     .heads = 2,
                     .inner = 24});
  set_initial(model);
  model.to(test::test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.02});
  optim::StepOptions step_options = amp::step_options(precision);
  step_options.clip_norm = 1.0;
  optim::Step step(model, {&optimizer}, step_options);
  const amp::ResolvedPrecision plan(precision);
  const Tensor images = signed_unit("images", {kBatch, kSide, kSide, 3}).to(test::test_device());
  std::vector<std::int64_t> classes;
  for (const std::uint32_t word : hashed("labels", kBatch)) classes.push_back(word % kClasses);
  const Tensor labels = Tensor::from(classes, {kBatch}, test::test_device());
  Run run;
  for (Index i = 0; i < kSteps; ++i) {
    Tensor logits, loss;
    {
      const amp::Autocast autocast(plan);
      logits = model(images);
      loss = cross_entropy(logits, labels);
    }
    run.losses.push_back(loss.item());
    step.backward(loss);
    if (golden && i == 0) {
      CHECK(test::normalised_error(logits.to_vector<double>(), golden->read("logits").to_vector<double>()) <
            kFirst);
      for (const Parameter& parameter : model.parameters()) check_gradient(parameter, *golden, kFirst);
      // The file has no further tensor: the parameters are torchvision's.
      CHECK(golden->entries().size() == 5 + 2 * model.parameters().size());
    }
    step.apply();
  }
  CHECK(step.synchronize().applied == kSteps);
  for (const Parameter& parameter : model.parameters())
    run.weights.push_back(parameter.value().to_vector<float>());
  return run;
}

}  // namespace

TEST_CASE("a small Vision Transformer agrees with torchvision's", "[vit]") {
  const safetensors::File golden(test::source_path("tests/golden/vit.safetensors"));
  const Run run = train(amp::Precision::fp32(), &golden);
  CHECK(worst(run.losses, golden.read("losses f64").to_vector<double>()) < kLosses);
  CHECK(train(amp::Precision::fp32(), nullptr) == run);
  check_like_autocast([](const amp::Precision& precision) { return train(precision, nullptr); }, golden,
                      {kBf16Losses}, {kF16Losses});
}
