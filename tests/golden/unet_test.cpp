// A small U-Net with cross entropy and Dice against PyTorch in FP64: logits, every gradient, running
// statistics; ten losses in FP32 and in mixed precision, which are then the same bit for bit when the run is
// repeated. tests/golden/unet.py makes the values; weights, images and masks come from the same hash here.
#include "models/unet.h"

#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/golden/gradients.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

using namespace tandem;

namespace {

constexpr int kSteps = 10;
constexpr Index kBatch = 2, kExtent = 32, kClasses = 11, kIgnore = 255;

// PyTorch's own runs are this far from its FP64 run (the metadata of the file): in FP32 logits 1.7e-6,
// gradients 3.8e-6, losses 1e-7; in BF16 losses 6e-4, in FP16 4e-4. Where Winograd's sums take an activation
// over a kink, our losses in FP32 are 1e-7 away for eight steps and 4e-6 in the tenth.
constexpr double kLogits = 2e-5;
constexpr double kGradient = 1e-4;
constexpr double kStatistic = 1e-5;
constexpr double kLosses = 1e-5;
constexpr double kLowLosses = 1.5e-3;

struct Data {
  Tensor images, masks;  // [N,H,W,1], u8 [N,H,W]
};

// Masks in patches of 4×4 pixels, an eleventh of which is ignored.
Data data_of(const std::string& stream) {
  constexpr Index kPatches = kExtent / 4;
  const auto words = hashed("masks" + stream, kBatch * kPatches * kPatches);
  std::vector<std::uint8_t> masks;
  for (Index n = 0; n < kBatch; ++n) {
    for (Index y = 0; y < kExtent; ++y) {
      for (Index x = 0; x < kExtent; ++x) {
        const auto patch = words[static_cast<std::size_t>((n * kPatches + y / 4) * kPatches + x / 4)] % 12;
        masks.push_back(static_cast<std::uint8_t>(patch == 11 ? kIgnore : patch));
      }
    }
  }
  return {signed_unit("images" + stream, {kBatch, kExtent, kExtent, 1}).to(test::test_device()),
          Tensor::from(masks, {kBatch, kExtent, kExtent}, test::test_device())};
}

std::shared_ptr<models::UNet> small_unet() {
  return std::make_shared<models::UNet>(
      models::UNetOptions{.in_channels = 1, .num_classes = kClasses, .width = 16, .levels = 3});
}

struct Run {
  std::vector<double> losses;
  std::vector<std::vector<float>> state;
  friend bool operator==(const Run&, const Run&) = default;
};

// Compares the first step with `golden` where one is given.
Run train(const amp::Precision& precision, const std::string& stream, const safetensors::File* golden) {
  const auto model = small_unet();
  set_initial(*model);
  model->to(test::test_device());
  optim::Sgd optimizer(model->parameters(), {.lr = 0.01, .momentum = 0.9});
  optim::Step step(*model, {&optimizer}, amp::step_options(precision));
  const amp::ResolvedPrecision plan(precision);
  const Data data = data_of(stream);
  Run run;
  for (int i = 0; i < kSteps; ++i) {
    Tensor logits, loss;
    {
      const amp::Autocast autocast(plan);
      logits = (*model)(data.images);
      loss = cross_entropy(logits, data.masks, {.ignore_index = kIgnore}) +
             dice_loss(logits, data.masks, {.epsilon = 1e-6, .ignore_index = kIgnore});
    }
    run.losses.push_back(loss.item());
    step.backward(loss);
    if (golden && i == 0) {
      CHECK(test::normalised_error(logits.to_vector<double>(), golden->read("logits").to_vector<double>()) <
            kLogits);
      for (const Parameter& parameter : model->parameters()) check_gradient(parameter, *golden, kGradient);
    }
    step.apply();
    if (golden && i == 0) {
      for (const nn::Statistic& statistic : model->statistics()) {
        INFO(statistic.name);
        const auto expected = golden->read("statistic/" + statistic.name).to_vector<double>();
        CHECK(test::normalised_error(statistic.live.to_vector<double>(), expected) < kStatistic);
      }
    }
  }
  CHECK(step.synchronize().applied == kSteps);
  for (const Parameter& parameter : model->parameters())
    run.state.push_back(parameter.value().to_vector<float>());
  for (const nn::Statistic& statistic : model->statistics())
    run.state.push_back(statistic.live.to_vector<float>());
  return run;
}

}  // namespace

TEST_CASE("a small U-Net agrees with PyTorch and with itself", "[unet]") {
  const test::OneThread one;  // another order of sums may take an activation over a kink in a later step
  const safetensors::File golden(tandem::test::source_path("tests/golden/unet.safetensors"));
  const std::string stream = golden.metadata().at("stream");
  const auto losses = [&](const char* type) {
    return golden.read(std::string("losses ") + type).to_vector<double>();
  };
  const Run run = train(amp::Precision::fp32(), stream, &golden);
  CHECK(worst(run.losses, losses("f64")) < kLosses);
  CHECK(worst(run.losses, losses("f32")) < kLosses);
  // Every tensor of the file was looked at: the network has the parameters and statistics of the original.
  const auto model = small_unet();
  CHECK(golden.entries().size() == 5 + 2 * model->parameters().size() + model->statistics().size());

  CHECK(train(amp::Precision::fp32(), stream, nullptr) == run);
}

TEST_CASE("a small U-Net in mixed precision agrees with PyTorch and with itself", "[unet]") {
  const safetensors::File golden(tandem::test::source_path("tests/golden/unet.safetensors"));
  const std::string stream = golden.metadata().at("stream");
  check_like_autocast([&](const amp::Precision& precision) { return train(precision, stream, nullptr); },
                      golden, kLowLosses);
}
