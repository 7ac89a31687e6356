// Weights by name: layouts of files, strict and lenient loading, reports, shared parameters.
#include "models/weights.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/random.h"
#include "models/resnet.h"
#include "nn/layers.h"

using namespace tandem;

namespace {

struct Scratch {
  std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tandem_weights_{}.safetensors", ::getpid()))
          .string();
  ~Scratch() { std::filesystem::remove(path); }
};

std::shared_ptr<models::ResNet> small_resnet(std::uint64_t seed, Index classes = 10) {
  const RandomScope scope(seed, 0, 0);
  return models::resnet(20, {.in_channels = 1, .num_classes = classes, .width = 4});
}

std::vector<std::vector<float>> state_of(nn::Module& module) {
  std::vector<std::vector<float>> all;
  for (const Parameter& parameter : module.parameters()) all.push_back(parameter.value().to_vector<float>());
  for (const nn::Statistic& statistic : module.statistics()) {
    all.push_back(statistic.live.to_vector<float>());
    all.push_back(statistic.next.to_vector<float>());
  }
  return all;
}

}  // namespace

TEST_CASE("weights written are weights read") {
  const Scratch scratch;
  const auto first = small_resnet(1);
  (*first)(Tensor::full({2, 8, 8, 1}, 0.5));
  first->commit_statistics();
  models::save_weights(*first, scratch.path, {{"made by", "test"}});
  const auto second = small_resnet(2);
  CHECK(state_of(*first) != state_of(*second));
  const models::LoadReport report = models::load_weights(*second, scratch.path);
  CHECK(report.loaded.size() ==
        second->parameters().size() + second->statistics().size() + second->counters().size());
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());
  CHECK(report.mismatched.empty());
  CHECK(state_of(*first) == state_of(*second));
  CHECK(*second->counters()[0].live == 1);
  CHECK(*second->counters()[0].next == 1);
  const safetensors::File file(scratch.path);
  CHECK(file.metadata().at("made by") == "test");
  CHECK(file.find("bn1.num_batches_tracked")->dtype == "I64");
  CHECK(file.find("bn1.num_batches_tracked")->extents.empty());
}

TEST_CASE("files hold PyTorch's layouts") {
  const Scratch scratch;
  nn::Sequential net;
  net.add("conv", std::make_shared<nn::Conv2d>(2, 3, std::array<Index, 2>{4, 5}));
  net.add("up", std::make_shared<nn::ConvTranspose2d>(3, 2, std::array<Index, 2>{4, 5}));
  net.add("conv1", std::make_shared<nn::Conv1d>(2, 3, 4));
  models::save_weights(net, scratch.path);
  const safetensors::File file(scratch.path);
  const Tensor oihw = file.read("conv.weight");
  CHECK(oihw.shape() == Shape{3, 2, 4, 5});
  CHECK(file.read("up.weight").shape() == Shape{3, 2, 4, 5});
  CHECK(file.read("conv1.weight").shape() == Shape{3, 2, 4});
  const auto here = net.parameters()[0].value().to_vector<float>();
  const auto there = oihw.to_vector<float>();
  for (std::size_t o = 0; o < 3; ++o)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t h = 0; h < 4; ++h)
        for (std::size_t w = 0; w < 5; ++w)
          CHECK(there[((o * 2 + i) * 4 + h) * 5 + w] == here[((o * 4 + h) * 5 + w) * 2 + i]);
  const auto before = state_of(net);
  for (const Parameter& parameter : net.parameters()) backend_for(Device{}).fill(parameter.value(), 0.0);
  models::load_weights(net, file);
  CHECK(state_of(net) == before);
}

TEST_CASE("a head of other classes is reported, and skipped on request") {
  const Scratch scratch;
  models::save_weights(*small_resnet(1), scratch.path);
  const auto other = small_resnet(2, 7);
  const auto before = state_of(*other);
  CHECK_THROWS_WITH(
      models::load_weights(*other, scratch.path),
      Catch::Contains("fc.weight is [10,16], here [7,16]") && Catch::Contains("skip_mismatched"));
  CHECK(state_of(*other) == before);  // nothing was changed
  const models::LoadReport report = models::load_weights(*other, scratch.path, {.skip_mismatched = true});
  REQUIRE(report.mismatched.size() == 2);
  CHECK(report.mismatched[0].name == "fc.weight");
  CHECK(report.text().find("of another shape: fc.weight") != std::string::npos);
  CHECK(other->find("conv1")->own_parameters()[0].second.value().to_vector<float>() ==
        small_resnet(1)->find("conv1")->own_parameters()[0].second.value().to_vector<float>());
}

TEST_CASE("missing and unexpected names are errors unless loading is lenient") {
  const Scratch scratch;
  auto weights = models::weights_of(*small_resnet(1));
  std::erase_if(weights, [](const auto& named) { return named.first == "bn1.bias"; });
  weights.emplace_back("extra.weight", Tensor::scalar(1.0));
  safetensors::write(scratch.path, weights);
  const auto model = small_resnet(2);
  const auto before = state_of(*model);
  CHECK_THROWS_WITH(models::load_weights(*model, scratch.path),
                    Catch::Contains("missing bn1.bias") && Catch::Contains("unexpected extra.weight") &&
                        Catch::Contains("strict"));
  CHECK(state_of(*model) == before);
  const models::LoadReport report = models::load_weights(*model, scratch.path, {.strict = false});
  CHECK(report.missing == std::vector<std::string>{"bn1.bias"});
  CHECK(report.unexpected == std::vector<std::string>{"extra.weight"});
  CHECK(report.text().ends_with("missing: bn1.bias; unexpected: extra.weight"));
}

TEST_CASE("old files without counters, and 16-bit files, load") {
  const Scratch scratch;
  auto weights = models::weights_of(*small_resnet(1));
  std::erase_if(weights, [](const auto& named) { return named.first.ends_with("num_batches_tracked"); });
  for (auto& [name, tensor] : weights) {
    const Tensor half = Tensor::empty(tensor.shape(), {.dtype = DType::bf16});
    backend_for(Device{}).cast(tensor, half);
    tensor = half;
  }
  safetensors::write(scratch.path, weights);
  const auto model = small_resnet(2);
  CHECK(models::load_weights(*model, scratch.path).missing.empty());
  const auto expected = small_resnet(1)->parameters()[0].value().to_vector<float>();
  const auto found = model->parameters()[0].value().to_vector<float>();
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1.0 / 256));

  safetensors::write(scratch.path, {{"weight", Tensor::zeros({2, 3}, {.dtype = DType::i32})}});
  nn::Linear linear(3, 2, {.bias = false});
  CHECK_THROWS_WITH(models::load_weights(linear, scratch.path),
                    Catch::Contains("weight") && Catch::Contains("I32"));
}

TEST_CASE("a shared parameter is stored once and found under any of its names") {
  const Scratch scratch;
  const auto tied = [] {
    auto first = std::make_shared<nn::Linear>(3, 3, nn::LinearOptions{.bias = false});
    auto net = std::make_shared<nn::Sequential>();
    net->add("encoder", first).add("decoder", std::make_shared<nn::Linear>(first->weight()));
    return net;
  };
  const auto net = tied();
  models::save_weights(*net, scratch.path);
  CHECK(safetensors::File(scratch.path).entries().size() == 1);
  const auto weight = net->parameters()[0].value();
  for (const auto& names :
       {std::vector<std::string>{"decoder.weight"}, {"decoder.weight", "encoder.weight"}}) {
    std::vector<safetensors::NamedTensor> file;
    for (const auto& name : names) file.emplace_back(name, weight);
    safetensors::write(scratch.path, file);
    const auto other = tied();
    CHECK(models::load_weights(*other, scratch.path).unexpected.empty());
    CHECK(other->parameters()[0].value().to_vector<float>() == weight.to_vector<float>());
  }
}

TEST_CASE("loaded weights reach a model whose memory an optimizer has moved") {
  const Scratch scratch;
  const auto first = small_resnet(1);
  models::save_weights(*first, scratch.path);
  const auto second = small_resnet(2);
  second->flatten_statistics();
  models::load_weights(*second, scratch.path);
  CHECK(state_of(*first) == state_of(*second));
}

TEST_CASE("one prefix before all names of a file, or of the model, is no difference") {
  const Scratch scratch;
  const auto saved = small_resnet(1);
  for (const std::string prefix : {"module.", "_orig_mod.", "model.backbone."}) {
    std::vector<safetensors::NamedTensor> weights = models::weights_of(*saved);
    for (auto& [name, tensor] : weights) name = prefix + name;
    safetensors::write(scratch.path, weights, {});
    const auto plain = small_resnet(2);
    const models::LoadReport report = models::load_weights(*plain, scratch.path);
    CHECK(state_of(*plain) == state_of(*saved));
    CHECK(report.file_prefix == prefix);
    CHECK(report.text().find("tensors loaded, without the \"" + prefix + "\" before their names") !=
          std::string::npos);
  }
  // Beside tensors of others, and in a model that puts a prefix before its own.
  std::vector<safetensors::NamedTensor> weights = models::weights_of(*saved);
  weights.emplace_back("head.weight", Tensor::full({2, 2}, 1.0));
  safetensors::write(scratch.path, weights, {});
  nn::Sequential wrapped;
  const auto within = small_resnet(2);
  wrapped.add("backbone", within);
  const models::LoadReport report = models::load_weights(wrapped, scratch.path, {.strict = false});
  CHECK(state_of(*within) == state_of(*saved));
  CHECK(report.module_prefix == "backbone.");
  CHECK(report.unexpected == std::vector<std::string>{"head.weight"});
  // A file whose names fit as they are is taken so.
  models::save_weights(*saved, scratch.path);
  CHECK(models::load_weights(*within, scratch.path).file_prefix.empty());
  // Nothing of another model fits, under any prefix.
  nn::Sequential other;
  other.add("fc", std::make_shared<nn::Linear>(5, 3));
  CHECK(models::compare_weights(other, safetensors::File(scratch.path)).loaded.empty());
}
