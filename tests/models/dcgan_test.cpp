// DCGAN: names and counts of PyTorch's example, shapes, initial values, unsupported sizes.
#include "models/dcgan.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "models/builder.h"
#include "nn/device.h"

using namespace tandem;
using namespace tandem::models;

namespace {

// Names and file shapes, as state_dict() lists them.
std::vector<std::string> listing(nn::Module& module) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : module.parameters())
    lines.push_back(parameter.name() + " " + to_string(parameter.value().shape()));
  return lines;
}

struct Spread {
  double mean = 0.0, deviation = 0.0;
};

Spread spread_of(const Tensor& values) {
  Spread spread;
  const std::vector<double> all = values.to_vector<double>();
  for (const double value : all) spread.mean += value / static_cast<double>(all.size());
  for (const double value : all)
    spread.deviation += (value - spread.mean) * (value - spread.mean) / static_cast<double>(all.size());
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

}  // namespace

TEST_CASE("DCGAN has the parameters of PyTorch's example") {
  // 64×64 colour images, ngf = ndf = 64: what torchsummary and the example's forks report.
  const DcganOptions example{.image_size = 64, .channels = 3, .noise = 100, .width = 64};
  CHECK(dcgan_generator(example)->parameter_count() == 3'576'704);
  CHECK(dcgan_discriminator(example)->parameter_count() == 2'765'568);
  CHECK(listing(*dcgan_generator(example)) ==
        std::vector<std::string>{"main.0.weight [100,4,4,512]", "main.1.weight [512]", "main.1.bias [512]",
                                 "main.3.weight [512,4,4,256]", "main.4.weight [256]", "main.4.bias [256]",
                                 "main.6.weight [256,4,4,128]", "main.7.weight [128]", "main.7.bias [128]",
                                 "main.9.weight [128,4,4,64]", "main.10.weight [64]", "main.10.bias [64]",
                                 "main.12.weight [64,4,4,3]"});
  CHECK(listing(*dcgan_discriminator(example)) ==
        std::vector<std::string>{"main.0.weight [64,4,4,3]", "main.2.weight [128,4,4,64]",
                                 "main.3.weight [128]", "main.3.bias [128]", "main.5.weight [256,4,4,128]",
                                 "main.6.weight [256]", "main.6.bias [256]", "main.8.weight [512,4,4,256]",
                                 "main.9.weight [512]", "main.9.bias [512]", "main.11.weight [1,4,4,512]"});
  std::vector<std::string> statistics;
  for (const nn::Statistic& statistic : dcgan_discriminator(example)->statistics())
    statistics.push_back(statistic.name);
  CHECK(statistics.front() == "main.3.running_mean");
  CHECK(statistics.size() == 6);
}

TEST_CASE("a DCGAN of 32×32 images has one level less") {
  const RandomScope random(7, 0, 0);
  const Dcgan model;  // of grey images, width 32
  Dcgan& networks = const_cast<Dcgan&>(model);
  CHECK(listing(model.generator()) ==
        std::vector<std::string>{"main.0.weight [100,4,4,128]", "main.1.weight [128]", "main.1.bias [128]",
                                 "main.3.weight [128,4,4,64]", "main.4.weight [64]", "main.4.bias [64]",
                                 "main.6.weight [64,4,4,32]", "main.7.weight [32]", "main.7.bias [32]",
                                 "main.9.weight [32,4,4,1]"});
  CHECK(networks.find("discriminator.main.2") != nullptr);
  CHECK(model.describe() == "Dcgan(100 numbers → 32×32×1, width 32)");
  const NoGrad no_grad;
  const Tensor images = model.generator()(Tensor::full({2, 1, 1, 100}, 3.0));
  CHECK(images.shape() == Shape{2, 32, 32, 1});
  for (const float value : images.to_vector<float>()) CHECK(std::abs(value) <= 1.0F);
  CHECK(model.discriminator()(images).shape() == Shape{2, 1});
}

TEST_CASE("sizes of a DCGAN are 4·2^k") {
  for (const Index side : {8, 16, 32, 64, 128, 1024}) {
    CAPTURE(side);
    const nn::BuildDevice shapes(kShapes);
    CHECK(is_dcgan_size(side));
    const DcganOptions options{.image_size = side, .channels = 3, .noise = 10, .width = 2};
    const NoGrad no_grad;
    const Tensor images = (*dcgan_generator(options))(Tensor::empty({2, 1, 1, 10}, {.device = kShapes}));
    CHECK(images.shape() == Shape{2, side, side, 3});
    CHECK((*dcgan_discriminator(options))(images).shape() == Shape{2, 1});
  }
  for (const Index side : {0, 4, 12, 28, 48, 2048, -32}) {
    CAPTURE(side);
    CHECK_FALSE(is_dcgan_size(side));
    CHECK_THROWS_AS(dcgan_generator({.image_size = side}), UserError);
    CHECK_THROWS_AS(dcgan_discriminator({.image_size = side}), UserError);
  }
  CHECK_THROWS_AS(dcgan_generator({.noise = 0}), UserError);
}

TEST_CASE("a DCGAN starts as the paper says") {
  const RandomScope random(1, 0, 0);
  const Dcgan model({.image_size = 64, .channels = 3, .noise = 100, .width = 32});
  for (nn::Module* network :
       {static_cast<nn::Module*>(&model.generator()), static_cast<nn::Module*>(&model.discriminator())}) {
    for (const Parameter& parameter : network->parameters()) {
      CAPTURE(parameter.name());
      const Spread spread = spread_of(parameter.value());
      if (parameter.name().ends_with("bias")) {
        CHECK(spread.mean == 0.0);
        CHECK(spread.deviation == 0.0);
        continue;
      }
      const bool norm = parameter.value().rank() == 1;
      const double sure = 5.0 / std::sqrt(static_cast<double>(parameter.value().numel()));  // of 0.02
      CHECK(spread.mean == Approx(norm ? 1.0 : 0.0).margin(0.02 * sure));
      CHECK(spread.deviation == Approx(0.02).epsilon(sure));
    }
  }
}

TEST_CASE("a DCGAN by name takes its sizes from the data") {
  const auto model = build(nlohmann::json{{"name", "dcgan"}, {"width", 4}, {"noise", 6}},
                           {.sample = {16, 16, 3}, .dtype = DType::f32});
  const auto dcgan = std::dynamic_pointer_cast<Dcgan>(model);
  REQUIRE(dcgan);
  CHECK(dcgan->options().image_size == 16);
  CHECK(dcgan->options().channels == 3);
  CHECK(dcgan->options().noise == 6);
  CHECK(dcgan->options().width == 4);
  CHECK_THROWS_WITH(build(nlohmann::json{{"name", "dcgan"}, {"image_size", 64}}, {.sample = {16, 16, 3}}),
                    Catch::Contains("image_size") && Catch::Contains("brought to 16"));
  CHECK_THROWS_WITH(build(nlohmann::json{{"name", "dcgan"}}, {.sample = {16, 8, 3}}),
                    Catch::Contains("16×8 are not square"));
  const auto padded = build(nlohmann::json{{"name", "dcgan"}, {"width", 2}}, {.sample = {28, 28, 1}});
  CHECK(std::dynamic_pointer_cast<AdversarialPair>(padded)->image() == Shape{32, 32, 1});
  CHECK_THROWS_WITH((*model)(Tensor::zeros({2, 16, 16, 3})), Catch::Contains("Dcgan"));
}
