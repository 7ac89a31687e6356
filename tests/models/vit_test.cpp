// Vision Transformers: parameters of torchvision's models, the first loss, options, files, errors.
#include "models/vit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/loss.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "models/builder.h"
#include "models/weights.h"
#include "nn/device.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

models::VitOptions tiny() {
  return {.num_classes = 10, .image = {8, 8}, .patch = 4, .layers = 2, .width = 16, .heads = 2, .inner = 32};
}

// On the device of the tests, without the zeros of a new model: scores then depend on the image.
void set_random(nn::Module& model) {
  model.to(test::test_device());
  std::uint64_t seed = 0;
  for (const Parameter& parameter : model.parameters()) {
    const Tensor values = test::random_tensor(parameter.value().shape(), DType::f32, ++seed, -0.5, 0.5);
    backend_for(parameter.value().device()).copy_bytes(values, parameter.value());
    parameter.value().storage()->bump_version();
  }
}

}  // namespace

TEST_CASE("Vision Transformers have torchvision's numbers of parameters", "[vit]") {
  const nn::BuildDevice shapes(kShapes);
  const auto count = [](Index layers, Index width, Index heads) {
    return models::Vit({.layers = layers, .width = width, .heads = heads}).parameter_count();
  };
  CHECK(count(12, 192, 3) == 5'717'416);
  CHECK(count(12, 384, 6) == 22'050'664);
  CHECK(count(24, 1024, 16) == 304'326'632);
  const models::Vit vit_b_16(models::VitOptions{});
  CHECK(vit_b_16.parameter_count() == 86'567'656);
  CHECK(vit_b_16.parameters().size() == 152);
  CHECK(vit_b_16.describe() == "Vit(16×16 patches of 224×224×3, 12 layers of 768 features → 1000 classes)");
}

TEST_CASE("parameters of a Vision Transformer have torchvision's names and order", "[vit]") {
  models::VitOptions options = tiny();
  options.layers = 1;
  const std::string layer = "encoder.layers.encoder_layer_0.";
  const std::vector<std::string> expected{"class_token",
                                          "conv_proj.weight",
                                          "conv_proj.bias",
                                          "encoder.pos_embedding",
                                          layer + "ln_1.weight",
                                          layer + "ln_1.bias",
                                          layer + "self_attention.in_proj_weight",
                                          layer + "self_attention.in_proj_bias",
                                          layer + "self_attention.out_proj.weight",
                                          layer + "self_attention.out_proj.bias",
                                          layer + "ln_2.weight",
                                          layer + "ln_2.bias",
                                          layer + "mlp.0.weight",
                                          layer + "mlp.0.bias",
                                          layer + "mlp.3.weight",
                                          layer + "mlp.3.bias",
                                          "encoder.ln.weight",
                                          "encoder.ln.bias",
                                          "heads.head.weight",
                                          "heads.head.bias"};
  std::vector<std::string> names;
  for (const Parameter& parameter : models::Vit(options).parameters()) names.push_back(parameter.name());
  CHECK(names == expected);
}

TEST_CASE("a Vision Transformer starts with equal probabilities, and learns a batch by heart", "[vit]") {
  const RandomScope random(1, 0, 0);
  models::Vit model(tiny());
  model.to(test::test_device());
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  optim::Step step(model, {&optimizer}, {});
  const Tensor images = test::random_tensor({8, 8, 8, 3}),
               labels =
                   Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, {8}, test::test_device());
  double last = 0.0;
  for (int i = 0; i < 60; ++i) {
    const Tensor loss = cross_entropy(model(images), labels);
    last = loss.item();
    if (i == 0) CHECK(last == Approx(std::log(10.0)).epsilon(1e-6));  // the head starts at 0
    step.backward(loss);
    step.apply();
  }
  CHECK(last < 0.05);
}

TEST_CASE("a Vision Transformer drops only in training", "[vit]") {
  const RandomScope random(3, 0, 0);
  const NoGrad no_grad;
  const Tensor images = test::random_tensor({2, 8, 8, 3});
  const auto scores = [&](const models::VitOptions& options, bool training) {
    models::Vit model(options);
    set_random(model);
    model.train(training);
    return model(images).to_vector<float>();
  };
  models::VitOptions dropping = tiny(), of_attention = tiny();
  dropping.dropout = 0.5;
  of_attention.attention_dropout = 0.5;
  const auto plain = scores(tiny(), true);
  for (const models::VitOptions& options : {dropping, of_attention}) {
    CHECK(scores(options, true) != plain);
    CHECK(scores(options, false) == plain);
  }
}

TEST_CASE("a Vision Transformer by name takes its sizes from the data", "[vit]") {
  const nlohmann::json named{{"name", "vit"}, {"patch", 4}, {"num_layers", 1},
                             {"width", 8},    {"heads", 2}, {"inner", 12}};
  const auto model = models::build(named, {.sample = {28, 20, 1}, .classes = 7});
  const auto vit = std::dynamic_pointer_cast<models::Vit>(model);
  REQUIRE(vit);
  CHECK(vit->options().image == std::array<Index, 2>{28, 20});
  CHECK(vit->options().in_channels == 1);
  CHECK(vit->options().num_classes == 7);
  CHECK(vit->options().inner == 12);
  const NoGrad no_grad;
  CHECK((*model)(Tensor::zeros({3, 28, 20, 1})).shape() == Shape{3, 7});
  for (const Parameter& parameter : model->parameters())
    if (parameter.name() == "encoder.pos_embedding") CHECK(parameter.value().shape() == Shape{1, 36, 8});
}

TEST_CASE("files of Vision Transformers are exchanged with torchvision", "[vit][weights]") {
  const testing::TemporaryDirectory folder;
  const std::string path = (folder / "vit.safetensors").string();
  const NoGrad no_grad;
  models::Vit model(tiny()), other(tiny());
  set_random(model);
  other.to(test::test_device());
  const Tensor images = test::random_tensor({2, 8, 8, 3});
  const auto scores = model(images).to_vector<float>();
  models::save_weights(model, path);
  const safetensors::File saved(path);
  CHECK(saved.find("conv_proj.weight")->extents == std::vector<std::uint64_t>{16, 3, 4, 4});
  SECTION("with today's names") {
    models::load_weights(other, path);
    CHECK(other(images).to_vector<float>() == scores);
  }
  SECTION("with the names of the first files") {
    std::vector<safetensors::NamedTensor> tensors;
    for (const safetensors::Entry& entry : saved.entries()) {
      std::string name = entry.name;
      for (const auto& [now, then] :
           {std::pair{".mlp.0.", ".mlp.linear_1."}, std::pair{".mlp.3.", ".mlp.linear_2."}})
        if (const std::size_t at = name.find(now); at != std::string::npos) name.replace(at, 7, then);
      tensors.emplace_back(name, saved.read(entry));
    }
    const std::string first = (folder / "first.safetensors").string();
    safetensors::write(first, tensors);
    models::load_weights(other, first);
    CHECK(other(images).to_vector<float>() == scores);
  }
  SECTION("of Hugging Face are refused by name") {
    const std::string theirs = (folder / "theirs.safetensors").string();
    safetensors::write(theirs,
                       {{"vit.encoder.layer.0.attention.attention.query.weight", Tensor::zeros({16, 16})}});
    CHECK_FAILS(UserError, models::load_weights(other, theirs),
                "holds Hugging Face's Vision Transformer (tensor "
                "\"vit.encoder.layer.0.attention.attention.query.weight\")");
  }
}

TEST_CASE("errors of Vision Transformers name the rule and the way out", "[vit]") {
  models::VitOptions options = tiny();
  options.heads = 3;
  CHECK_FAILS(UserError, models::Vit(options), "3 heads do not divide 16 features");
  options = tiny();
  options.layers = 0;
  CHECK_FAILS(UserError, models::Vit(options), "must be positive, got 3, 10, 8×8, 4, 0 and 16");
  CHECK_FAILS(UserError,
              models::build(nlohmann::json{{"name", "vit"}}, {.sample = {28, 28, 1}, .classes = 10}),
              "patches of 16×16 pixels do not tile images of 28×28; use a patch of 14, or resize the images");
  models::Vit model(tiny());
  CHECK_FAILS(UserError, model(Tensor::zeros({2, 8, 12, 3})),
              "[vit] expects images [N,8,8,3], got f32[2,8,12,3]");
}
