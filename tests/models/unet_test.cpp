// U-Net: the original's names and counts, shapes, options and errors. tests/golden/unet_test.cpp compares
// values with PyTorch.
#include "models/unet.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/random.h"
#include "models/builder.h"

using namespace tandem;
using namespace tandem::models;

namespace {

std::vector<std::string> all_names(nn::Module& model) {
  std::vector<std::string> names;
  for (const Parameter& parameter : model.parameters()) names.push_back(parameter.name());
  for (const nn::Statistic& statistic : model.statistics()) names.push_back(statistic.name);
  for (const nn::Counter& counter : model.counters()) names.push_back(counter.name);
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> double_conv_names(const std::string& path) {
  std::vector<std::string> names{path + ".double_conv.0.weight", path + ".double_conv.3.weight"};
  for (const char* norm : {".double_conv.1.", ".double_conv.4."}) {
    for (const char* name : {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"})
      names.push_back(path + norm + name);
  }
  return names;
}

const DataInfo kScenes{
    .sample = {32, 48, 1}, .dtype = DType::f32, .classes = 11, .kind = ModelKind::segmenter};

std::string error_of(const char* text, const DataInfo& data = kScenes) {
  try {
    build(nlohmann::json::parse(text), data);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("U-Net has the names of milesial/Pytorch-UNet") {
  std::vector<std::string> expected{"outc.conv.weight", "outc.conv.bias"};
  const auto add = [&](const std::vector<std::string>& names) {
    expected.insert(expected.end(), names.begin(), names.end());
  };
  add(double_conv_names("inc"));
  for (const std::string level : {"1", "2", "3", "4"}) {
    add(double_conv_names("down" + level + ".maxpool_conv.1"));
    add({"up" + level + ".up.weight", "up" + level + ".up.bias"});
    add(double_conv_names("up" + level + ".conv"));
  }
  std::ranges::sort(expected);
  UNet model({.in_channels = 3, .num_classes = 2});
  CHECK(all_names(model) == expected);
  CHECK(model.parameter_count() == 31'037'698);  // tests/golden/unet.py
  CHECK(UNet({.in_channels = 1, .num_classes = 11, .width = 16, .levels = 3}).parameter_count() == 482'619);
}

TEST_CASE("U-Net gives scores for every pixel") {
  const NoGrad no_grad;
  UNet model({.in_channels = 3, .num_classes = 5, .width = 4, .levels = 2});
  model.eval();
  CHECK(model(Tensor::zeros({2, 8, 12, 3})).shape() == Shape{2, 8, 12, 5});
  CHECK(model(Tensor::zeros({0, 4, 4, 3})).shape() == Shape{0, 4, 4, 5});
  CHECK(model.describe() == "U-Net(3 channels → 5 classes, width 4, 2 levels)");
  CHECK(model.find("up1.up")->describe() == "ConvTranspose2d(16 → 8, 2×2, stride 2)");
  CHECK(model.find("up1.conv.double_conv.0")->describe() == "Conv2d(16 → 8, 3×3, padding 1, no bias)");
}

TEST_CASE("skip connections stand before what comes from below") {
  const NoGrad no_grad;
  const RandomScope random(3, 0, 0);
  UNet model({.in_channels = 1, .num_classes = 2, .width = 2, .levels = 1});
  model.eval();
  const auto values_of = [&](const std::string& name) {
    const auto parameters = model.parameters();
    const Tensor value = std::ranges::find(parameters, name, &Parameter::name)->value();
    value.storage()->bump_version();
    return std::span(value.data<float>(), static_cast<std::size_t>(value.numel()));
  };
  const auto scores = [&] { return model(Tensor::from({1, -2, 3, -4}, {1, 2, 2, 1})).to_vector<float>(); };
  // Nothing comes from below: the filter's last two of four input channels see zeros.
  std::ranges::fill(values_of("up1.up.weight"), 0.0F);
  std::ranges::fill(values_of("up1.up.bias"), 0.0F);
  const auto silence = [&](bool below) {
    const auto filter = values_of("up1.conv.double_conv.0.weight");  // [2,3,3,4]
    for (std::size_t i = 0; i < filter.size(); ++i) {
      if ((i % 4 >= 2) == below) filter[i] = 0.0F;
    }
  };
  const auto before = scores();
  silence(true);
  CHECK(scores() == before);
  silence(false);
  CHECK(scores() != before);
}

TEST_CASE("U-Net says which images it takes") {
  const NoGrad no_grad;
  UNet model({.in_channels = 1, .num_classes = 2, .width = 2, .levels = 3});
  model.eval();
  CHECK_THROWS_WITH(
      model(Tensor::zeros({1, 16, 20, 1})),
      "[unet] 3 levels halve an image 3 times: its height and width must be multiples of 8, the input is "
      "[1,16,20,1]");
  CHECK_THROWS_AS(UNet({.levels = 0}), UserError);
  CHECK_THROWS_AS(UNet({.width = 0}), UserError);
}

TEST_CASE("U-Net from a configuration takes channels and classes from the data") {
  const auto model = build(nlohmann::json::parse(R"({"name": "unet", "width": 4, "levels": 3})"), kScenes);
  CHECK(model->describe() == "U-Net(1 channels → 11 classes, width 4, 3 levels)");
  CHECK(output_shape(*model, {32, 48, 1}) == Shape{32, 48, 11});
  CHECK(error_of(R"({"name": "unet", "width": 4, "levels": 5})").find("multiples of 32") !=
        std::string::npos);
  CHECK(error_of(R"({"name": "unet", "levels": 11})").starts_with("[model.levels]"));
  CHECK(error_of(R"({"name": "unet", "num_classes": 10})").find("the data has 11 classes") !=
        std::string::npos);
}

TEST_CASE("a segmentation model without scores for each pixel is refused") {
  CHECK(error_of(R"({"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 11}]})")
            .find("need one score each at every pixel: [32,48,11]") != std::string::npos);
  CHECK(error_of(R"({"layers": [{"type": "conv2d", "out_channels": 11, "kernel": 3}]})")
            .find("the result of a sample of [32,48,1] is [30,46,11]") != std::string::npos);
  CHECK(error_of(R"({"layers": [{"type": "conv2d", "out_channels": 11, "kernel": 3, "padding": "same"}]})") ==
        "no error");
}
