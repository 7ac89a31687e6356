// Residual networks: parameter counts and names of torchvision, shapes, options.
#include "models/resnet.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/random.h"
#include "models/builder.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::models;

TEST_CASE("parameter counts are torchvision's") {
  const std::pair<int, Index> expected[] = {
      {18, 11'689'512}, {34, 21'797'672}, {50, 25'557'032}, {101, 44'549'160}, {152, 60'192'808}};
  for (const auto& [depth, count] : expected) {
    INFO(depth);
    CHECK(resnet(depth)->parameter_count() == count);
  }
}

TEST_CASE("the CIFAR family has the counts of its paper") {
  // 0.27, 0.46, 0.66, 0.85 and 1.7 million (He et al. 2015, table 6) come with shortcuts without parameters.
  const std::pair<int, double> expected[] = {{20, 0.27}, {32, 0.46}, {44, 0.66}, {56, 0.85}, {110, 1.7}};
  for (const auto& [depth, millions] : expected) {
    INFO(depth);
    const auto model = resnet(depth, {.shortcut = ResNetShortcut::padding});
    CHECK(static_cast<double>(model->parameter_count()) / 1e6 == Approx(millions).epsilon(0.02));
  }
  CHECK(resnet(20)->parameter_count() ==
        resnet(20, {.shortcut = ResNetShortcut::padding})->parameter_count() + 16 * 32 + 2 * 32 + 32 * 64 +
            2 * 64);
  CHECK(resnet(20, {.in_channels = 1})->parameter_count() == 272'186);
}

TEST_CASE("names are torchvision's") {
  std::ifstream file(tandem::test::source_path("tests/models/torchvision_names.txt"));
  REQUIRE(file);
  std::map<std::string, std::vector<std::string>> expected;  // by model
  std::string line, model_name;
  while (std::getline(file, line)) {
    if (line.starts_with("# ")) {
      model_name = line.substr(2);
    } else if (!line.empty()) {
      expected[model_name].push_back(line);
    }
  }
  REQUIRE(expected.size() == 2);
  for (const auto& [name, names] : expected) {
    const auto model = resnet(std::stoi(name.substr(6)));
    std::vector<std::string> found;
    for (const Parameter& parameter : model->parameters()) found.push_back(parameter.name());
    for (const nn::Statistic& statistic : model->statistics()) found.push_back(statistic.name);
    for (const nn::Counter& counter : model->counters()) found.push_back(counter.name);
    std::vector<std::string> sorted = names;
    std::ranges::sort(found);
    std::ranges::sort(sorted);
    CHECK(found == sorted);
  }
}

TEST_CASE("residual networks classify batches of images") {
  const NoGrad no_grad;
  const auto cifar = resnet(20, {.in_channels = 1, .num_classes = 7});
  cifar->eval();
  CHECK((*cifar)(Tensor::zeros({2, 28, 28, 1})).shape() == Shape{2, 7});
  CHECK((*cifar)(Tensor::zeros({0, 28, 28, 1})).shape() == Shape{0, 7});
  CHECK(cifar->describe() == "ResNet-20(1 channels → 7 classes)");
  for (int depth : {18, 50}) {
    const auto model = resnet(depth, {.num_classes = 5, .width = 8});
    model->eval();
    CHECK((*model)(Tensor::zeros({2, 64, 64, 3})).shape() == Shape{2, 5});
    CHECK(model->describe() == fmt::format("ResNet-{}(3 channels → 5 classes)", depth));
  }
  const auto small_stem = resnet(18, {.num_classes = 5, .width = 8, .stem = ResNetStem::cifar});
  CHECK(small_stem->find("maxpool") == nullptr);
  CHECK((*small_stem)(Tensor::zeros({2, 8, 8, 3})).shape() == Shape{2, 5});
  const auto padded = resnet(20, {.shortcut = ResNetShortcut::padding});
  CHECK((*padded)(Tensor::zeros({2, 32, 32, 3})).shape() == Shape{2, 10});
  CHECK(padded->find("layer2.0.downsample") == nullptr);
}

TEST_CASE("bottlenecks stride in their 3×3 convolution") {
  const auto model = resnet(50, {.width = 8});
  CHECK(model->find("layer2.0.conv1")->describe() == "Conv2d(32 → 16, 1×1, no bias)");
  CHECK(model->find("layer2.0.conv2")->describe() == "Conv2d(16 → 16, 3×3, stride 2, padding 1, no bias)");
}

TEST_CASE("zero-initialised residual blocks start as the identity") {
  BasicBlock block(4, 4, {.zero_init_residual = true});
  block.eval();
  const NoGrad no_grad;
  const Tensor x = Tensor::full({1, 3, 3, 4}, 0.75);
  CHECK(block(x).to_vector<float>() == x.to_vector<float>());
  const auto model = resnet(50, {.width = 8, .zero_init_residual = true});
  for (const Parameter& parameter : model->parameters()) {
    const std::string& name = parameter.name();
    if (!name.starts_with("layer") || !name.ends_with("weight") || name.find(".bn") == std::string::npos)
      continue;
    const bool last = name.find("bn3") != std::string::npos;
    CHECK(parameter.value().to_vector<float>()[0] == (last ? 0.0f : 1.0f));
  }
}

TEST_CASE("the padded shortcut keeps every second pixel and centres the channels") {
  const Shortcut shortcut(nullptr, 1, 3, 2);
  const Tensor x = Tensor::from({0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 3, 3, 1});
  CHECK(shortcut(x).to_vector<float>() == std::vector<float>{0, 0, 0, 0, 2, 0, 0, 6, 0, 0, 8, 0});
}

TEST_CASE("weights depend on the seed alone") {
  const auto weights = [](std::uint64_t seed) {
    const RandomScope scope(seed, 0, 0);
    std::vector<float> all;
    for (const Parameter& parameter : resnet(20, {.width = 4})->parameters()) {
      const auto values = parameter.value().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  CHECK(weights(5) == weights(5));
  CHECK(weights(5) != weights(6));
}

TEST_CASE("depths of neither family are refused") {
  CHECK_THROWS_WITH(resnet(19),
                    Catch::Contains("[resnet]") && Catch::Contains("19") && Catch::Contains("20"));
  CHECK_THROWS_WITH(resnet(2), Catch::Contains("depth 2 is in neither family"));
  CHECK_NOTHROW(resnet(14));
  CHECK_THROWS_AS(Shortcut(nullptr, 4, 2, 1), UserError);
}
