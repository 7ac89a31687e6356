// Preprocessing in the metadata of exported networks, against NumPy and Pillow, which followed it:
// tests/golden/prepare_check.py stores the picture, the metadata and the preprocessed image. With
// TANDEM_ONNX_PYTHON, a Python with onnxruntime, numpy, pillow and safetensors, they run again.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/preparation.h"
#include "data/transforms/pipeline.h"
#include "files/safetensors.h"
#include "tasks/preprocessing.h"
#include "tests/support/paths.h"

using namespace tandem;

namespace {

struct Data {
  datasets::DatasetInfo info;
  Index image_size = 0;
};

struct Case {
  std::string name;
  Data data;
  std::vector<datasets::TransformSpec> augment;
};

Data described(Shape sample, datasets::ChannelStatistics statistics, Index image_size,
               std::vector<std::string> class_names) {
  datasets::DatasetInfo info{.sample_shape = sample, .classes = 3, .class_names = std::move(class_names)};
  info.statistics = std::move(statistics);
  return {std::move(info), image_size};
}

// As prepare_check.py configures them; the statistics of "fixed" are what that data had.
std::vector<Case> cases(const safetensors::File& golden) {
  const auto numbers = [&](const char* key) {
    return nlohmann::json::parse(golden.metadata().at(key)).get<std::vector<float>>();
  };
  const std::vector<std::string> kinds{"kind0", "kind1", "kind2"};
  return {
      {"colour", described({0, 0, 3}, {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}, 32, kinds), {}},
      {"grey",
       described({0, 0, 1}, {{0.449F}, {0.226F}}, 224, kinds),
       {{"random_resized_crop", {{"size", {28}}}}, {"pad", {{"padding", {2}}, {"fill", {0.5}}}}}},
      {"fixed",
       described({36, 40, 3}, {numbers("fixed.mean"), numbers("fixed.std")}, 0, {}),
       {{"center_crop", {{"size", {30, 20}}}}}}};
}

// The grey picture of a colour one.
Tensor luma_of(const Tensor& picture) {
  const auto pixels = picture.to_vector<std::uint8_t>();
  std::vector<std::uint8_t> grey;
  for (std::size_t i = 0; i < pixels.size(); i += 3)
    grey.push_back(static_cast<std::uint8_t>(
        (19595U * pixels[i] + 38470U * pixels[i + 1] + 7471U * pixels[i + 2] + 32768U) >> 16U));
  return Tensor::from(grey, {picture.size(0), picture.size(1), 1});
}

}  // namespace

TEST_CASE("images are prepared as the metadata of exported networks says") {
  const safetensors::File golden(test::source_path("tests/golden/prepare.safetensors"));
  const Tensor picture = golden.read("picture");
  for (const Case& each : cases(golden)) {
    INFO(each.name);
    const auto metadata = tasks::preprocessing(each.data.info, each.data.image_size, each.augment);
    for (const char* key : {"input", "mean", "std", "class_names"})
      CHECK(metadata.at(std::string("tandem.") + key) == golden.metadata().at(each.name + "." + key));

    datasets::DatasetInfo any = each.data.info;
    any.sample_shape = {0, 0, any.sample_shape[2]};
    const datasets::Pipeline pipeline(
        any, datasets::preparation(each.data.info, each.data.image_size, each.augment));
    const Shape& shape = pipeline.output_shape();
    std::vector<float> own(static_cast<std::size_t>(shape.numel()));
    pipeline.apply(shape[2] == 1 ? luma_of(picture) : picture, {}, own.data());
    const Tensor theirs = golden.read(each.name);
    REQUIRE(theirs.shape() == Shape{1, shape[2], shape[0], shape[1]});
    const auto values = theirs.to_vector<float>();
    double largest = 0.0;
    for (Index c = 0; c < shape[2]; ++c) {
      for (Index i = 0; i < shape[0] * shape[1]; ++i)
        largest = std::max<double>(largest,
                                   std::abs(own[static_cast<std::size_t>(i * shape[2] + c)] -
                                            values[static_cast<std::size_t>(c * shape[0] * shape[1] + i)]));
    }
    CHECK(largest < 1e-4);
  }
}

TEST_CASE("onnxruntime behind NumPy and Pillow predicts as the program does") {
  const char* python = std::getenv("TANDEM_ONNX_PYTHON");
  if (!python) {
    WARN("not asked again: TANDEM_ONNX_PYTHON names no Python with onnxruntime and pillow");
    return;
  }
  const std::string script = test::source_path("tests/golden/prepare_check.py");
  CHECK(std::system((std::string(python) + " " + script + " " + test::program_path()).c_str()) == 0);
}
