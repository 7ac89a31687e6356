// Small encoder–decoder Transformers against torch.nn.Transformer in FP64: scores and every gradient of the
// first step, the losses of ten steps of Adam in FP32 and in mixed precision, and greedily written sentences,
// with cached keys and values. tests/golden/transformer.py makes the values; weights and sentences come from
// the same hash here.
#include "models/transformer.h"

#include <catch2/catch.hpp>

#include "autograd/modes.h"
#include "optim/adam.h"
#include "tests/golden/sentences.h"
#include "tests/support/paths.h"

using namespace tandem;

namespace {

constexpr int kSteps = 10;

// PyTorch's own runs are this far from its FP64 run (the metadata of the files): in FP32 logits 4e-7,
// gradients 2e-6, losses 2e-7; in BF16 losses 2e-3, in FP16 4e-4.
constexpr double kFirst = 1e-5;
constexpr double kLosses = 2e-6;
constexpr double kLowLosses = 6e-3;

models::TransformerOptions pre_norm() {
  return {.source_words = Sentences::kTargetWords,
          .target_words = Sentences::kTargetWords,
          .encoder_layers = 2,
          .decoder_layers = 3,
          .width = 24,
          .heads = 4,
          .inner = 40,
          .dropout = 0.0,
          .shared = true};
}

models::TransformerOptions post_norm() {
  return {.source_words = Sentences::kSourceWords,
          .target_words = Sentences::kTargetWords,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .width = 24,
          .heads = 4,
          .inner = 40,
          .norm_first = false,
          .dropout = 0.0,
          .activation = models::TransformerActivation::gelu,
          .tied = false};
}

std::shared_ptr<models::Transformer> begun(const models::TransformerOptions& options) {
  const auto model = std::make_shared<models::Transformer>(options);
  set_initial(*model);
  model->to(test::test_device());
  return model;
}

SentencesRun train(const models::TransformerOptions& options, const amp::Precision& precision,
                   const safetensors::File* golden) {
  const auto model = begun(options);
  optim::Adam optimizer(model->parameters(), {.lr = 3e-3, .beta2 = 0.98, .eps = 1e-6});
  return learn_sentences(*model, optimizer, kSteps, precision, golden, {kFirst, kFirst}, /*further=*/1);
}

// Words [steps,N], each the likeliest of those that differ from the word before it.
std::vector<double> greedy(const models::TransformerOptions& options, Index steps) {
  const NoGrad no_grad;
  const auto model = begun(options);
  model->eval();
  const Sentences sentences = Sentences::batch(0);
  const auto memory = model->encode(sentences.source, sentences.lengths);
  auto words = sentences.read.rows(0, 1).to_vector<std::int64_t>();
  const auto rows = static_cast<Index>(words.size());
  models::State state;
  std::vector<double> written;
  for (Index t = 0; t < steps; ++t) {
    const auto advanced = model->advance(Tensor::from(words, {1, rows}, test::test_device()), memory, state);
    state = advanced.state;
    const auto scores = model->scores(advanced.hidden).to_vector<double>();
    const std::size_t count = scores.size() / words.size();
    for (std::size_t row = 0; row < words.size(); ++row) {
      std::vector<double> own(scores.begin() + static_cast<std::ptrdiff_t>(row * count),
                              scores.begin() + static_cast<std::ptrdiff_t>((row + 1) * count));
      own[static_cast<std::size_t>(words[row])] = -HUGE_VAL;
      words[row] = std::ranges::max_element(own) - own.begin();
      written.push_back(static_cast<double>(words[row]));
    }
  }
  return written;
}

void check_network(const char* file, const models::TransformerOptions& options) {
  const safetensors::File golden(test::source_path(std::string("tests/golden/") + file));
  const SentencesRun run = train(options, amp::Precision::fp32(), &golden);
  CHECK(worst(run.losses, golden.read("losses f64").to_vector<double>()) < kLosses);
  CHECK(train(options, amp::Precision::fp32(), nullptr) == run);
  check_like_autocast([&](const amp::Precision& precision) { return train(options, precision, nullptr); },
                      golden, kLowLosses);
  const Tensor expected = golden.read("greedy");
  CHECK(greedy(options, expected.size(0)) == expected.to_vector<double>());
}

}  // namespace

TEST_CASE("a Transformer with pre-norm and one table agrees with PyTorch's", "[transformer]") {
  check_network("transformer_pre.safetensors", pre_norm());
}

TEST_CASE("a Transformer with post-norm and a table for each side agrees with PyTorch's", "[transformer]") {
  check_network("transformer_post.safetensors", post_norm());
}
