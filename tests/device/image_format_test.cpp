// Images in the form of the first convolution's operands: the same bits as casts in the step.
#include "tasks/image_format.h"

#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "nn/layers/conv.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"
#include "tests/program/support.h"
#include "train/trainer.h"

using namespace tandem;
using namespace tandem::test;
using testing::TemporaryDirectory;

namespace {

bool on_gpu() { return test_device().type == DeviceType::cuda; }
// A GPU may sum over 4 channels in another order than over 3.
bool sums_in_one_order() { return emulator() || !on_gpu(); }

// Multiples of 1/8 whose products and sums are exact in any order; random values are not.
Tensor eighths(const Shape& shape, std::uint64_t seed) {
  std::vector<double> values = random_values(shape.numel(), seed, -8.0, 9.0);
  for (double& value : values) value = std::floor(value) / 8.0;
  return tensor_of(values, shape, DType::f32);
}

// y, and the gradients of filter and bias.
std::vector<std::vector<double>> results(nn::Conv2d& conv, const Tensor& images,
                                         const amp::Precision& precision) {
  conv.clear_gradients();
  Tensor y, loss;
  {
    const amp::Autocast autocast(precision);
    y = conv(images);
    loss = sum(mul(y, eighths(y.shape(), 9)));
  }
  backward(loss);
  return {y.to_vector<double>(), conv.weight().gradient().to_vector<double>(),
          conv.bias().gradient().to_vector<double>()};
}

// What convolutions were given as images in forward: "f16[6,8,8,4]".
class Given final : public OpObserver {
 public:
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs, std::span<const Tensor>) override {
    if (&info == &ops::Conv2d::info) images.insert(to_string(inputs[0]));
    if (&info == &ops::Cast::info && inputs[0].rank() == 4 && inputs[0].size(3) == kImageChannels)
      casts.insert(to_string(inputs[0]));
  }
  std::set<std::string> images, casts;

 private:
  static constexpr Index kImageChannels = 1;
};

struct Run {
  std::string state;
  std::vector<double> losses;
  nlohmann::json end;
  Given given;
};

// A run over the digits, whose images the convolution takes as they are, or behind a layer that does nothing:
// then they are not rounded before the step.
Run run_of(const TemporaryDirectory& directory, const std::string& name, bool direct,
           const std::vector<std::string>& settings) {
  const std::string first = direct ? "" : R"({"type": "identity", "name": "first"}, )";
  std::vector<std::string> overrides = {
      "run_dir=" + (directory.path() / name).string(),
      std::string("device=") + (on_gpu() ? "cuda" : "cpu"),
      "allow_tf32=false",
      "deterministic=true",
      "epochs=2",
      "log_every=1",
      "data.batch_size=220",
      "model={\"layers\": [" + first +
          R"({"type": "conv2d", "name": "conv", "out_channels": 8, "kernel": 3, "stride": 2},
             {"type": "batch_norm", "name": "bn"}, {"type": "relu", "name": "relu"},
             {"type": "dropout", "name": "dropout", "p": 0.1}, {"type": "flatten", "name": "flatten"},
             {"type": "linear", "name": "fc", "out_features": 10}]})"};
  overrides.insert(overrides.end(), settings.begin(), settings.end());
  const config::Loaded loaded = config::load("digits_mlp", overrides);
  const auto run =
      runs::RunDirectory::create(loaded.config.run_dir, name, config::resolved(loaded.config).dump(2) + "\n");
  Run result;
  {
    const ObserverScope observed(result.given);
    train::Trainer trainer(loaded, {.quiet = true});
    REQUIRE(trainer.run(run, "", train::StopRequest()).status == train::TrainStatus::completed);
  }
  result.state = testing::saved_tensors(run.path(), "state");
  for (const auto& line : testing::json_lines(run.metrics())) {
    if (line["event"] == "step") result.losses.push_back(line["loss"]);
    if (line["event"] == "end") result.end = line["metrics"];
  }
  return result;
}

}  // namespace

TEST_CASE("a convolution of padded 16-bit images has the bits of one that casts them",
          "[device][image_format]") {
  const nn::ConvOptions ways[] = {
      {}, {.stride = {2, 2}, .padding = {3, 3}}, {.padding = {1, 2}, .dilation = {2, 1}}};
  for (const Index channels : {1, 3, 4, 6}) {
    for (const nn::ConvOptions& options : ways) {
      for (const DType dtype : {DType::f16, DType::bf16}) {
        for (const bool exact : {true, false}) {
          if (!exact && !sums_in_one_order()) continue;
          CAPTURE(channels, options.stride[0], options.padding[1], name_of(dtype), exact);
          nn::Conv2d conv(channels, 5, options.stride[0] == 2 ? 7 : 3, options);
          conv.to(test_device());
          const Tensor weight = conv.weight().value(), bias = conv.bias().value();
          if (exact) {
            backend_under_test().copy_bytes(eighths(weight.shape(), 2), weight);
            backend_under_test().copy_bytes(eighths(bias.shape(), 3), bias);
            weight.storage()->bump_version();
            bias.storage()->bump_version();
          }
          const Shape shape{2, 9, 8, channels};
          const Tensor images = exact ? eighths(shape, 1) : random_tensor(shape);
          const amp::Precision precision{.level = amp::Level::O1, .dtype = dtype};
          const auto expected = results(conv, images, precision);
          REQUIRE(conv.take_padded_images((channels + 3) / 4 * 4));
          const Tensor given = tasks::in_format(images, {.dtype = dtype, .channel_multiple = 4});
          const auto got = results(conv, given, precision);
          CHECK(got[0] == expected[0]);
          CHECK(got[1] == expected[1]);
          CHECK(got[2] == expected[2]);
          // Not something that comes out the same whatever is done.
          const auto other = results(conv, tasks::in_format(eighths(shape, 4), {dtype, 4}), precision);
          CHECK(other[0] != expected[0]);
          CHECK(other[1] != expected[1]);
        }
      }
    }
  }
}

TEST_CASE("the loader gives the first convolution its operand", "[device][image_format]") {
  const std::vector<std::vector<std::string>> ways = {
      {"precision=amp_fp16", "precision.scaler.initial=16777216", "precision.on_skip=retry",
       "precision.diagnose=2", "optimizer.lr=0.01"},
      {"precision=amp_bf16", R"(data.augment=["random_crop", "horizontal_flip"])", "accumulate=2"},
      {"precision=amp_bf16", R"(data.augment=["cutout"])"},  // made on the host
      {"precision=amp_fp16", "precision.scaler=none", "cuda_graph=off"}};
  const TemporaryDirectory directory;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    CAPTURE(ways[i]);
    const Run padded = run_of(directory, "padded" + std::to_string(i), true, ways[i]);
    const Run cast = run_of(directory, "cast" + std::to_string(i), false, ways[i]);
    const std::string dtype = ways[i][0] == "precision=amp_fp16" ? "f16" : "bf16";
    const std::string operand = dtype + "[220,8,8,1]", images = "f32[220,8,8,1]";
    const std::string given = on_gpu() ? dtype + "[220,8,8,4]" : operand;
    CHECK(padded.given.images.contains(given));
    CHECK(padded.given.images.contains(operand) == !on_gpu());
    CHECK(padded.given.casts.contains(images) == !on_gpu());
    CHECK(cast.given.images.contains(operand));
    CHECK(cast.given.casts.contains(images));
    for (const auto& seen : {padded.given.images, cast.given.images}) {
      CHECK(std::ranges::any_of(seen, [](const std::string& text) {  // evaluation
        return text.starts_with("f32[") && text.ends_with(",8,8,1]");
      }));
    }
    REQUIRE(padded.losses.size() == cast.losses.size());
    if (sums_in_one_order()) {
      CHECK(padded.losses == cast.losses);
      CHECK((padded.state == cast.state));
      CHECK(padded.end == cast.end);
    } else {
      for (std::size_t k = 0; k < cast.losses.size(); ++k)
        CHECK(std::abs(padded.losses[k] - cast.losses[k]) <= 2e-2 * std::abs(cast.losses[k]));
    }
  }
}

TEST_CASE("FP32 trains on images as they are", "[device][image_format]") {
  const TemporaryDirectory directory;
  const Run run = run_of(directory, "run", true, {"precision=fp32", "epochs=1"});
  for (const std::string& seen : run.given.images) {
    INFO(seen);
    CHECK((seen.starts_with("f32[") && seen.ends_with(",8,8,1]")));
  }
}
