// 200 steps of LeNet-5 and ResNet-8 in FP32 and in mixed precision, against PyTorch's autocast on the CPU,
// against FP64, and bit for bit against themselves. tests/golden/precision.py makes the values; weights and
// data come from the same hash here.
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/loss.h"
#include "files/safetensors.h"
#include "models/lenet.h"
#include "models/resnet.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/golden/hashed.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

constexpr int kSteps = 200, kBatches = 8;
constexpr Index kBatch = 16, kExtent = 16;

// The tolerance of each type (tests/support/tolerance.h) holds as it is for so many steps. Every update
// multiplies what rounding differs by, relu most where an activation crosses its kink: after 200 steps
// PyTorch's own runs are as far from its FP64 run as 2.6e-4 in FP32, 6.6e-4 in FP16 and 2.9e-3 in BF16 (the
// metadata of the file), and another order of summation is another such run.
constexpr std::size_t kExactSteps = 10;
constexpr double kLongFp32 = 1e-3;
constexpr double kLongSlack = 2.0;  // FP16 would have a margin of half its tolerance only

struct Batch {
  Tensor images, labels;
};

// Half the pattern of its class, half noise.
std::vector<Batch> batches() {
  constexpr Index kPixels = kExtent * kExtent;
  const Tensor patterns = signed_unit("patterns", {10, kPixels});
  std::vector<Batch> result;
  for (int b = 0; b < kBatches; ++b) {
    const std::string number = std::to_string(b);
    std::vector<std::int64_t> labels;
    for (const std::uint32_t word : hashed("labels" + number, kBatch)) labels.push_back(word % 10);
    const Tensor images = signed_unit("noise" + number, {kBatch, kExtent, kExtent, 1});
    float* pixels = images.data<float>();
    for (Index i = 0; i < images.numel(); ++i) {
      const float pattern = patterns.data<float>()[labels[i / kPixels] * kPixels + i % kPixels];
      pixels[i] = 0.5f * pattern + 0.5f * pixels[i];
    }
    result.push_back({images.to(test::test_device()), Tensor::from(labels, {kBatch}, test::test_device())});
  }
  return result;
}

struct Run {
  std::vector<double> losses;
  std::vector<std::vector<float>> state;  // weights and running statistics at the end
};

Run train(nn::Module& model, double lr, const amp::Precision& precision) {
  set_initial(model);
  model.to(test::test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = lr, .momentum = 0.9, .weight_decay = 1e-4});
  optim::Step step(model, {&optimizer}, amp::step_options(precision));
  const amp::ResolvedPrecision plan(precision);
  const std::vector<Batch> data = batches();
  Run run;
  for (int i = 0; i < kSteps; ++i) {
    const Batch& batch = data[static_cast<std::size_t>(i % kBatches)];
    Tensor loss;
    {
      const amp::Autocast autocast(plan);
      loss = cross_entropy(model(batch.images), batch.labels);
    }
    step.backward(loss);
    step.apply();
    run.losses.push_back(loss.item());
  }
  CHECK(step.synchronize().applied == kSteps);
  for (const Parameter& parameter : model.parameters())
    run.state.push_back(parameter.value().to_vector<float>());
  for (const nn::Statistic& statistic : model.statistics())
    run.state.push_back(statistic.live.to_vector<float>());
  return run;
}

void check_model(const std::string& name, const std::function<nn::ModulePtr()>& make) {
  const test::OneThread one;
  const safetensors::File golden(tandem::test::source_path("tests/golden/precision.safetensors"));
  const double lr = std::stod(golden.metadata().at(name + " lr"));
  const auto losses = [&](const char* type) { return golden.read(name + " " + type).to_vector<double>(); };
  const auto run = [&](const amp::Precision& precision) { return train(*make(), lr, precision); };

  const Run wide = run(amp::Precision::fp32());
  CHECK(worst(wide.losses, losses("f64"), kExactSteps) < test::tolerance_of(DType::f32).relative);
  CHECK(worst(wide.losses, losses("f64"), kSteps) < kLongFp32);
  CHECK(worst(wide.losses, losses("f32"), kSteps) < kLongFp32);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(name, name_of(dtype));
    const Run narrow = run(like_pytorch(dtype));
    const double tolerance = test::tolerance_of(dtype).relative;
    for (const char* reference : {dtype == DType::f16 ? "f16" : "bf16", "f32", "f64"}) {
      CAPTURE(reference);
      CHECK(worst(narrow.losses, losses(reference), kExactSteps) < tolerance);
      CHECK(worst(narrow.losses, losses(reference), kSteps) < kLongSlack * tolerance);
    }
    CHECK(worst(narrow.losses, wide.losses, kSteps) < kLongSlack * tolerance);
    CHECK(narrow.losses != wide.losses);
    const Run again = run(like_pytorch(dtype));
    CHECK(narrow.losses == again.losses);
    CHECK(narrow.state == again.state);
    // Weight gradients in FP32, the default: another run, no farther from the exact one.
    amp::Precision finer = like_pytorch(dtype);
    finer.round_weight_gradients = false;
    const Run fine = run(finer);
    CHECK(worst(fine.losses, losses("f64"), kExactSteps) < tolerance);
    CHECK(worst(fine.losses, losses("f64"), kSteps) < kLongSlack * tolerance);
    CHECK(fine.losses != narrow.losses);
  }
}

}  // namespace

TEST_CASE("LeNet-5 in mixed precision agrees with PyTorch, with FP64 and with itself", "[precision]") {
  check_model("lenet5", [] {
    return models::lenet5({.height = kExtent, .width = kExtent, .activation = "tanh", .average_pool = true});
  });
}

TEST_CASE("ResNet-8 in mixed precision agrees with PyTorch, with FP64 and with itself", "[precision]") {
  check_model("resnet8", [] { return models::resnet(8, {.in_channels = 1, .num_classes = 10}); });
}
