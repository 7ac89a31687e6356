// Residual networks against PyTorch in FP64: logits, every gradient, running statistics, ten losses; then the
// same ten steps again, bit for bit. tests/golden/resnet.py makes the values; weights and images come from
// the same hash here.
#include "models/resnet.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/ops/loss.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/golden/gradients.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

constexpr int kSteps = 10;

// PyTorch's own FP32 is this far from its FP64 on these networks (the files' metadata): logits 4e-6,
// gradients 1.5e-5, losses 1e-6 for four steps and 2e-3 of a loss that has fallen eightyfold after ten, as
// rounding differences grow with each update. The bounds leave room for another order of summation.
constexpr double kLogits = 2e-5;
constexpr double kGradient = 1e-4;
constexpr double kStatistic = 1e-5;
// Relative, three steps: each update multiplies the rounding differences of the gradients (order of
// summation, Winograd transforms, contraction), 1.4e-5 at the third loss in an instrumented build.
constexpr double kFirstLosses = 5e-5;
constexpr double kLaterLosses = 2e-3;  // of the first loss

struct Run {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
};

// Trains ten steps; compares the first with `golden` when one is given.
Run train_steps(nn::Module& model, const Shape& images, const std::string& stream,
                const safetensors::File* golden) {
  set_initial(model);
  model.to(test::test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4});
  optim::Step step(model, {&optimizer});
  const Tensor x = signed_unit("images" + stream, images).to(test::test_device());
  std::vector<std::int64_t> classes;
  for (std::uint32_t word : hashed("labels" + stream, images[0])) classes.push_back(word % 10);
  const Tensor labels = Tensor::from(classes, {images[0]}, test::test_device());
  Run run;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor logits = model(x);
    const Tensor loss = cross_entropy(logits, labels);
    run.losses.push_back(loss.item());
    step.backward(loss);
    if (golden && i == 0) {
      CHECK(test::normalised_error(logits.to_vector<double>(), golden->read("logits").to_vector<double>()) <
            kLogits);
      for (const Parameter& parameter : model.parameters()) check_gradient(parameter, *golden, kGradient);
    }
    step.apply();
    if (golden && i == 0) {
      for (const nn::Statistic& statistic : model.statistics()) {
        INFO(statistic.name);
        const auto expected = golden->read("statistic/" + statistic.name).to_vector<double>();
        CHECK(test::normalised_error(statistic.live.to_vector<double>(), expected) < kStatistic);
      }
    }
  }
  for (const Parameter& parameter : model.parameters())
    run.weights.push_back(parameter.value().to_vector<float>());
  for (const nn::Statistic& statistic : model.statistics())
    run.weights.push_back(statistic.live.to_vector<float>());
  return run;
}

void check_golden(const std::string& name, const Shape& images, const std::function<nn::ModulePtr()>& make) {
  const safetensors::File golden(tandem::test::source_path("tests/golden/" + name + ".safetensors"));
  const std::string stream = golden.metadata().at("stream");
  const auto model = make();
  const Run run = train_steps(*model, images, stream, &golden);
  const auto losses = golden.read("losses").to_vector<double>();
  REQUIRE(losses.size() == kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    INFO("step " << i);
    CHECK(std::abs(run.losses[i] - losses[i]) <
          (i < 3 ? kFirstLosses * losses[i] : kLaterLosses * losses[0]));
  }
  // Every tensor of the file was looked at.
  std::size_t checked = 2;
  checked += 2 * model->parameters().size() + model->statistics().size();
  CHECK(golden.entries().size() == checked);

  const auto again = make();
  const Run replay = train_steps(*again, images, stream, nullptr);
  CHECK(replay.losses == run.losses);
  CHECK(replay.weights == run.weights);
}

}  // namespace

TEST_CASE("ResNet-20 agrees with PyTorch and with itself") {
  check_golden("resnet20", {4, 28, 28, 1},
               [] { return models::resnet(20, {.in_channels = 1, .num_classes = 10}); });
}

TEST_CASE("a narrow ResNet-18 agrees with PyTorch and with itself") {
  check_golden("basic", {4, 64, 64, 3}, [] { return models::resnet(18, {.num_classes = 10, .width = 8}); });
}

TEST_CASE("bottleneck blocks agree with PyTorch and with themselves") {
  check_golden("bottleneck", {4, 64, 64, 3}, [] {
    return std::make_shared<models::ResNet>(models::ResNetLayout{.blocks = {2, 1, 1, 1}, .bottleneck = true},
                                            models::ResNetOptions{.num_classes = 10, .width = 8});
  });
}
