// Ten iterations of a DCGAN, both networks, against PyTorch: in FP64, in FP32, and under autocast in BF16 and
// FP16. tests/golden/dcgan.py makes the values; weights, images and z come from the same hash and the same
// random numbers here.
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/elementwise.h"
#include "core/random.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "tasks/registry.h"
#include "tests/golden/gradients.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

using namespace tandem;

namespace {

constexpr int kSteps = 10;
constexpr Index kBatch = 16, kSide = 32;
constexpr std::uint64_t kSeed = 5;

// PyTorch's own FP32 run is as far from its FP64 run as 4.9e-7 (losses), 1.2e-6 (gradients), 1.1e-4 (updates:
// Adam's first steps have the size of the rate whatever the gradient's, so that a small one that rounding
// moves counts) and 2.1e-7 (statistics).
constexpr double kLosses = 2e-6, kGradients = 1e-5, kUpdates = 1e-3, kStatistics = 2e-6;

// Twice what PyTorch's autocast is off by. Its gradients and updates are off by up to 23 %, which says
// nothing.
struct Narrow {
  DType dtype;
  const char* name;
  double losses, statistics;
};
constexpr Narrow kNarrow[] = {{DType::bf16, "bf16", 1.2e-2, 5.4e-3}, {DType::f16, "f16", 1.6e-3, 3e-3}};

std::unique_ptr<tasks::Task> make_gan() {
  const auto recipe = tasks::registry().make(
      "gan",
      {{"model", options::Given{{"name", "dcgan"}, {"width", 8}}},
       {"data", options::Given{{"name", "synthetic"}, {"image_size", kSide}, {"channels", 1}}}},
      {});
  return recipe->make(recipe->describe());
}

// Half one of four patterns, half noise.
datasets::Batch batch(int step) {
  constexpr Index kPixels = kSide * kSide;
  const Tensor patterns = signed_unit("patterns", {4, kPixels});
  const Tensor images = signed_unit("images" + std::to_string(step), {kBatch, kSide, kSide, 1});
  float* const pixels = images.data<float>();
  for (Index i = 0; i < images.numel(); ++i) {
    const float pattern = patterns.data<float>()[i / kPixels % 4 * kPixels + i % kPixels];
    pixels[i] = 0.5F * pattern + 0.5F * pixels[i];
  }
  return datasets::Batch({{"image", images}}, kBatch).to(test::test_device());
}

std::vector<double> values_of(const Tensor& value, ParameterLayout layout) {
  return models::to_file_layout(value.to(Device{}), layout).to_vector<double>();
}

struct Run {
  std::vector<double> losses;  // [kSteps,3]: of the real, of the made, of the generator
  std::map<std::string, std::vector<double>> updates, statistics;
};

class Trainer {
 public:
  explicit Trainer(const amp::Precision& precision) : plan_(precision), task_(make_gan()) {
    set_initial(task_->model());
    task_->model().to(test::test_device());
    scaler_ = std::make_unique<optim::LossScaler>(precision.scaler, test::test_device());
    optim::StepOptions options = amp::step_options(precision);
    options.shared_scaler = scaler_.get();
    const std::vector<tasks::Phase> phases = task_->phases();
    REQUIRE(phases.size() == 2);
    CHECK(phases[0].name == "discriminator");
    CHECK(phases[0].losses == 2);
    CHECK(phases[1].name == "generator");
    for (std::size_t i = 0; i < 2; ++i) {
      optimizers_[i] = std::make_unique<optim::Adam>(
          phases[i].trained->parameters(), optim::AdamOptions{.lr = 2e-4, .beta1 = 0.5, .beta2 = 0.999});
      steps_[i] = std::make_unique<optim::Step>(
          *phases[i].trained, std::vector<optim::Optimizer*>{optimizers_[i].get()}, options);
    }
  }

  // `golden`: the gradients of the first iteration are held to it.
  Run train(const safetensors::File* golden = nullptr) {
    std::map<std::string, std::vector<double>> start;
    for (const Parameter& p : task_->model().parameters()) start[p.name()] = values_of(p.value(), p.layout());
    Run run;
    for (int t = 0; t < kSteps; ++t) iterate(t, t == 0 ? golden : nullptr, run);
    for (const auto& step : steps_) CHECK(step->synchronize().applied == kSteps);
    for (const Parameter& p : task_->model().parameters()) {
      std::vector<double> moved = values_of(p.value(), p.layout());
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= start[p.name()][i];
      run.updates[p.name()] = sampled(moved, p.name());
    }
    for (const nn::Statistic& s : task_->model().statistics())
      run.statistics[s.name] = s.live.to_vector<double>();
    return run;
  }

 private:
  Tensor loss(const datasets::Batch& images, int t, std::size_t phase, int which) {
    const amp::Autocast autocast(plan_);
    const RandomScope random(kSeed, static_cast<std::uint32_t>(t), 0);
    return task_->loss(images, {.phase = phase, .loss = which});
  }

  void finish(std::size_t phase, const Tensor& sum, const char* network, const safetensors::File* golden) {
    steps_[phase]->backward(sum);
    for (const Parameter& p : task_->model().parameters())  // names it from the root on
      if (golden && p.name().starts_with(network)) check_gradient(p, *golden, kGradients);
    steps_[phase]->apply();
  }

  void iterate(int t, const safetensors::File* golden, Run& run) {
    const datasets::Batch images = batch(t);
    const Tensor real = loss(images, t, 0, 0), made = loss(images, t, 0, 1);
    finish(0, add(real, made), "discriminator", golden);
    const Tensor generator = loss(images, t, 1, 0);
    finish(1, generator, "generator", golden);
    scaler_->update();
    for (const Tensor& each : {real, made, generator}) {
      CHECK(each.dtype() == DType::f32);
      run.losses.push_back(each.item());
    }
  }

  amp::ResolvedPrecision plan_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<optim::LossScaler> scaler_;
  std::unique_ptr<optim::Adam> optimizers_[2];
  std::unique_ptr<optim::Step> steps_[2];
};

}  // namespace

TEST_CASE("ten iterations of a DCGAN are PyTorch's", "[dcgan]") {
  const test::OneThread one;
  const safetensors::File golden(test::source_path("tests/golden/dcgan.safetensors"));
  const auto losses = [&](const char* type) {
    return golden.read(std::string("losses ") + type).to_vector<double>();
  };
  const Run wide = Trainer(amp::Precision::fp32()).train(&golden);
  CHECK(worst(wide.losses, losses("f64")) < kLosses);
  CHECK(worst(wide.losses, losses("f32")) < kLosses);
  CHECK(wide.updates.size() == 18);
  CHECK(wide.statistics.size() == 10);
  for (const auto& [name, update] : wide.updates) {
    INFO(name);
    CHECK(test::normalised_error(update, golden.read("update/" + name).to_vector<double>()) < kUpdates);
  }
  for (const auto& [name, statistic] : wide.statistics) {
    INFO(name);
    CHECK(test::normalised_error(statistic, golden.read("statistic/" + name).to_vector<double>()) <
          kStatistics);
  }
  for (const Narrow& expected : kNarrow) {
    CAPTURE(expected.name);
    const Run narrow = Trainer(like_pytorch(expected.dtype)).train();
    CHECK(worst(narrow.losses, losses(expected.name)) < expected.losses);
    CHECK(worst(narrow.losses, losses("f64")) < expected.losses);
    CHECK(narrow.losses != wide.losses);
    for (const auto& [name, statistic] : narrow.statistics) {
      INFO(name);
      CHECK(test::normalised_error(statistic, golden.read("statistic/" + name).to_vector<double>()) <
            expected.statistics);
    }
    CHECK(Trainer(like_pytorch(expected.dtype)).train().losses == narrow.losses);
  }
}
