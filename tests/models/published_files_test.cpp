// Files of published Transformers, as tests/golden/published.py writes them, and variants of their names.
#include "models/published_files.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/backend.h"
#include "models/bert.h"
#include "models/gpt.h"
#include "models/weights.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

using Named = std::vector<safetensors::NamedTensor>;

std::string golden_path(const std::string& name) {
  return test::source_path("tests/golden/" + name + ".safetensors");
}

Named tensors_of(const safetensors::File& file) {
  Named tensors;
  for (const safetensors::Entry& entry : file.entries()) tensors.emplace_back(entry.name, file.read(entry));
  return tensors;
}

std::string replaced_in(std::string name, std::string_view what, std::string_view by) {
  const std::size_t at = name.find(what);
  return at == std::string::npos ? name : name.replace(at, what.size(), by);
}

models::GptOptions gpt_of_file() {
  return {.vocabulary = 7,
          .layers = 1,
          .width = 4,
          .heads = 2,
          .context = 5,
          .activation = nn::BlockActivation::gelu_tanh};
}

std::shared_ptr<models::Gpt> new_gpt() { return std::make_shared<models::Gpt>(gpt_of_file()); }

std::vector<float> value_of(nn::Module& module, const std::string& name) {
  for (const auto& [path, parameter] : module.parameter_paths())
    if (path == name) return parameter.value().to_vector<float>();
  FAIL("no parameter " << name);
  return {};
}

std::vector<float> turned(const Tensor& matrix) {
  const auto from = matrix.to_vector<float>();
  const auto rows = static_cast<std::size_t>(matrix.size(0)),
             columns = static_cast<std::size_t>(matrix.size(1));
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
  return to;
}

void check_gpt(models::Gpt& module, const safetensors::File& conv1d) {
  for (const auto& [path, parameter] : module.parameter_paths()) {
    INFO(path);
    const bool head = path == "lm_head.weight";
    const Tensor there = conv1d.read("transformer." + (head ? "wte.weight" : path));
    const bool is_turned = there.rank() == 2 && path.find("h.0.") == 0;
    CHECK(parameter.value().to_vector<float>() == (is_turned ? turned(there) : there.to_vector<float>()));
  }
}

}  // namespace

TEST_CASE("GPT-2 files load in every form of their names", "[weights]") {
  const safetensors::File original(golden_path("gpt2_lm"));
  const testing::TemporaryDirectory folder;
  const std::string path = (folder / "gpt2.safetensors").string();
  const auto module_owner = new_gpt();
  models::Gpt& module = *module_owner;
  const models::LoadReport report = models::load_weights(module, original);  // strict
  CHECK(report.unexpected.empty());
  check_gpt(module, original);
  {
    const NoGrad no_grad;
    const auto tokens =
        nlohmann::json::parse(original.metadata().at("tokens")).get<std::vector<std::int64_t>>();
    const auto logits =
        module(Tensor::from(tokens, {static_cast<Index>(tokens.size()), 1})).to_vector<double>();
    std::vector<double> expected;
    for (const auto& row : nlohmann::json::parse(original.metadata().at("logits")))
      for (const double value : row) expected.push_back(value);
    CHECK(test::normalised_error(logits, expected) < 1e-5);
  }

  SECTION("without the prefix, and with the head of the same values") {
    Named tensors;
    for (const auto& [name, tensor] : tensors_of(original))
      tensors.emplace_back(replaced_in(name, "transformer.", ""), tensor);
    tensors.emplace_back("lm_head.weight", original.read("transformer.wte.weight"));
    safetensors::write(path, tensors);
    const auto other = new_gpt();
    models::load_weights(*other, path);
    check_gpt(*other, original);
  }
  SECTION("[out,in], as nanoGPT and Tandem write them: even the square matrix is not transposed") {
    models::save_weights(module, path);
    const auto other = new_gpt();
    models::load_weights(*other, path);
    check_gpt(*other, original);
  }
  SECTION("a head of other values") {
    Named tensors = tensors_of(original);
    tensors.emplace_back("lm_head.weight", Tensor::zeros({7, 4}));
    safetensors::write(path, tensors);
    const auto other = new_gpt();
    CHECK_FAILS(
        UserError, models::load_weights(*other, path),
        "unexpected lm_head.weight (its values differ from transformer.wte.weight, the same parameter "
        "of the model)");
  }
  SECTION("no table at all") {
    Named tensors = tensors_of(original);
    std::erase_if(tensors, [](const auto& each) { return each.first == "transformer.wte.weight"; });
    safetensors::write(path, tensors);
    const auto other = new_gpt();
    CHECK_FAILS(UserError, models::load_weights(*other, path), "missing wte.weight");
    CHECK(value_of(*other, "wpe.weight") != original.read("transformer.wpe.weight").to_vector<float>());
  }
  SECTION("neither form of c_attn") {
    Named tensors = tensors_of(original);
    for (auto& [name, tensor] : tensors)
      if (name.ends_with("c_attn.weight")) tensor = Tensor::zeros({4, 8});
    safetensors::write(path, tensors);
    const auto other = new_gpt();
    CHECK_FAILS(UserError, models::load_weights(*other, path),
                "h.0.attn.c_attn.weight is [4,8], here [12,4]");
  }
}

TEST_CASE("BERT files load in every form of their names", "[weights]") {
  const safetensors::File original(golden_path("bert"));
  const testing::TemporaryDirectory folder;
  const std::string path = (folder / "bert.safetensors").string();
  const auto check = [&](models::Bert& module) {
    for (const auto& [name, parameter] : module.parameter_paths()) {
      INFO(name);
      std::vector<float> expected;
      const std::string_view joined = ".query_key_value.";
      if (name.find(joined) == std::string::npos) {
        expected = original.read(name).to_vector<float>();
      } else {
        for (const char* const part : {".query.", ".key.", ".value."})
          for (const float value : original.read(replaced_in(name, joined, part)).to_vector<float>())
            expected.push_back(value);
      }
      CHECK(parameter.value().to_vector<float>() == expected);
    }
  };
  auto module = std::make_shared<models::Bert>(models::BertOptions{.vocabulary = 11,
                                                                   .width = 8,
                                                                   .layers = 2,
                                                                   .heads = 2,
                                                                   .inner = 16,
                                                                   .context = 6,
                                                                   .next_sentence = true});
  models::load_weights(*module, original);  // strict
  check(*module);

  const auto fresh = [&] { return std::make_shared<models::Bert>(module->options()); };
  SECTION("of the first conversions: gamma and beta, positions, no prefix, one decoder") {
    Named tensors{
        {"embeddings.position_ids", Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}, {1, 6})}};
    for (auto [name, tensor] : tensors_of(original)) {
      if (name.find("cls.predictions.decoder") == 0) continue;
      name = replaced_in(name, "LayerNorm.weight", "LayerNorm.gamma");
      name = replaced_in(name, "LayerNorm.bias", "LayerNorm.beta");
      tensors.emplace_back(replaced_in(name, "bert.", ""), tensor);
    }
    safetensors::write(path, tensors);
    const auto other = fresh();
    models::load_weights(*other, path);
    check(*other);
  }
  SECTION("of NVIDIA") {
    Named tensors;
    for (const auto& [name, tensor] : tensors_of(original))
      tensors.emplace_back(replaced_in(replaced_in(name, "intermediate.dense.", "intermediate.dense_act."),
                                       "pooler.dense.", "pooler.dense_act."),
                           tensor);
    safetensors::write(path, tensors);
    const auto other = fresh();
    models::load_weights(*other, path);
    check(*other);
  }
  SECTION("of Tandem") {
    models::save_weights(*module, path);
    const auto other = fresh();
    models::load_weights(*other, path);
    check(*other);
  }
  SECTION("a part of the joined projection is missing") {
    Named tensors = tensors_of(original);
    std::erase_if(tensors, [](const auto& each) {
      return each.first == "bert.encoder.layer.1.attention.self.key.weight";
    });
    safetensors::write(path, tensors);
    CHECK_FAILS(UserError, models::load_weights(*fresh(), path),
                "missing bert.encoder.layer.1.attention.self.query_key_value.weight (rows 8 to 15)");
  }
  SECTION("a part has another width") {
    Named tensors = tensors_of(original);
    for (auto& [name, tensor] : tensors)
      if (name.ends_with("layer.0.attention.self.value.weight")) tensor = Tensor::zeros({8, 4});
    safetensors::write(path, tensors);
    CHECK_FAILS(UserError, models::load_weights(*fresh(), path),
                "layer.0.attention.self.query_key_value.weight");
  }
}

TEST_CASE("a file of another architecture is refused by name", "[weights]") {
  const safetensors::File bert(golden_path("bert")), gpt2(golden_path("gpt2_lm"));
  CHECK(models::architecture_of(bert) == "BERT");
  CHECK(models::architecture_of(gpt2) == "GPT-2");
  CHECK_FAILS(
      UserError, models::load_weights(*new_gpt(), bert),
      "holds BERT (tensor \"bert.encoder.layer.0.attention.self.query.weight\"), but the model is GPT-2");
  CHECK_FAILS(UserError, models::vit_names(gpt2), "holds GPT-2");
}

TEST_CASE("torchvision's first Vision Transformers call their perceptrons' layers linear_1 and linear_2",
          "[weights]") {
  const testing::TemporaryDirectory folder;
  const std::string path = (folder / "vit.safetensors").string();
  safetensors::write(
      path, {{"encoder.layers.encoder_layer_0.self_attention.in_proj_weight", Tensor::zeros({12, 4})},
             {"encoder.layers.encoder_layer_0.mlp.linear_2.bias", Tensor::zeros({4})}});
  const safetensors::File file(path);
  CHECK(models::vit_names(file)(*file.find("encoder.layers.encoder_layer_0.mlp.linear_2.bias"))->name ==
        "encoder.layers.encoder_layer_0.mlp.3.bias");
}

TEST_CASE("Llama's files have their projections joined, with fewer heads of keys", "[weights]") {
  const testing::TemporaryDirectory folder;
  const std::string path = (folder / "llama.safetensors").string();
  const models::GptOptions options{.vocabulary = 5,
                                   .layers = 1,
                                   .width = 4,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .context = 3,
                                   .inner = 6,
                                   .bias = false,
                                   .activation = nn::BlockActivation::swiglu,
                                   .norm = nn::BlockNorm::rms,
                                   .positions = models::GptPositions::rotary,
                                   .tied = false};
  Named tensors{{"model.embed_tokens.weight", Tensor::full({5, 4}, 1.0)},
                {"model.norm.weight", Tensor::full({4}, 2.0)},
                {"lm_head.weight", Tensor::full({5, 4}, 3.0)}};
  const std::string layer = "model.layers.0.";
  float value = 4.0F;
  for (const auto& [name, shape] :
       std::vector<std::pair<const char*, Shape>>{{"self_attn.q_proj", {4, 4}},
                                                  {"self_attn.k_proj", {2, 4}},
                                                  {"self_attn.v_proj", {2, 4}},
                                                  {"self_attn.o_proj", {4, 4}},
                                                  {"mlp.gate_proj", {6, 4}},
                                                  {"mlp.up_proj", {6, 4}},
                                                  {"mlp.down_proj", {4, 6}},
                                                  {"input_layernorm", {4}},
                                                  {"post_attention_layernorm", {4}}})
    tensors.emplace_back(layer + name + ".weight", Tensor::full(shape, value++));
  tensors.emplace_back(layer + "self_attn.rotary_emb.inv_freq", Tensor::zeros({1}));
  safetensors::write(path, tensors);
  models::Gpt model(options);
  models::load_weights(model, path);  // strict
  const auto blocks = [](const std::vector<std::pair<int, float>>& parts) {
    std::vector<float> all;
    for (const auto& [count, each] : parts) all.insert(all.end(), static_cast<std::size_t>(count), each);
    return all;
  };
  CHECK(value_of(model, "h.0.attn.c_attn.weight") == blocks({{16, 4.0F}, {8, 5.0F}, {8, 6.0F}}));
  CHECK(value_of(model, "h.0.attn.c_proj.weight") == blocks({{16, 7.0F}}));
  CHECK(value_of(model, "h.0.mlp.c_fc.weight") == blocks({{24, 8.0F}, {24, 9.0F}}));
  CHECK(value_of(model, "h.0.mlp.c_proj.weight") == blocks({{24, 10.0F}}));
  CHECK(value_of(model, "h.0.ln_1.weight") == blocks({{4, 11.0F}}));
  CHECK(value_of(model, "h.0.ln_2.weight") == blocks({{4, 12.0F}}));
  CHECK(value_of(model, "ln_f.weight") == blocks({{4, 2.0F}}));
  CHECK(value_of(model, "lm_head.weight") == blocks({{20, 3.0F}}));
}
