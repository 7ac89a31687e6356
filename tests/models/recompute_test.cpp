// Transformers that compute activations again in backward: losses and gradients have the bits of those that
// keep them.
#include <catch2/catch.hpp>
#include <functional>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/random.h"
#include "models/bert.h"
#include "models/gpt.h"
#include "models/transformer.h"
#include "models/vit.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

constexpr double kDropout = 0.2;

Tensor drawn_ids(const Shape& shape, std::uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<std::int64_t> ids;
  for (Index i = 0; i < shape.numel(); ++i) ids.push_back(random.below(40));
  return Tensor::from(ids, shape, test::test_device());
}

// A model with its loss on batch `number`.
struct Trained {
  std::shared_ptr<nn::Module> model;
  std::function<Tensor(std::uint64_t number)> loss;
};

Trained gpt(nn::Recompute recompute, models::GptPositions positions, nn::BlockActivation activation) {
  const auto model = std::make_shared<models::Gpt>(models::GptOptions{.vocabulary = 40,
                                                                      .layers = 2,
                                                                      .width = 32,
                                                                      .heads = 4,
                                                                      .kv_heads = 2,
                                                                      .context = 16,
                                                                      .dropout = kDropout,
                                                                      .activation = activation,
                                                                      .positions = positions,
                                                                      .recompute = recompute});
  return {model, [model](std::uint64_t number) {
            const Tensor words = drawn_ids({17, 4}, number);
            return model->loss(model->advance(words.rows(0, 16), {}).hidden, {.words = words.rows(1, 16)});
          }};
}

Trained bert(nn::Recompute recompute) {
  const auto model = std::make_shared<models::Bert>(models::BertOptions{.vocabulary = 40,
                                                                        .width = 32,
                                                                        .layers = 2,
                                                                        .heads = 4,
                                                                        .context = 16,
                                                                        .dropout = kDropout,
                                                                        .attention_dropout = kDropout,
                                                                        .recompute = recompute});
  return {model, [model](std::uint64_t number) {
            const Tensor words = drawn_ids({4, 16}, number);
            const Tensor hidden = model->hidden(
                {.tokens = words, .lengths = Tensor::from(std::vector<std::int64_t>{16, 9, 12, 1}, {4})});
            return cross_entropy(model->word_scores(reshape(hidden, {64, 32})), reshape(words, {64}));
          }};
}

Trained vit(nn::Recompute recompute) {
  const auto model = std::make_shared<models::Vit>(models::VitOptions{.num_classes = 40,
                                                                      .image = {16, 16},
                                                                      .patch = 4,
                                                                      .layers = 2,
                                                                      .width = 32,
                                                                      .heads = 4,
                                                                      .dropout = kDropout,
                                                                      .attention_dropout = kDropout,
                                                                      .recompute = recompute});
  return {model, [model](std::uint64_t number) {
            const Tensor images = test::random_tensor({4, 16, 16, 3}, DType::f32, number);
            return cross_entropy((*model)(images), drawn_ids({4}, number));
          }};
}

Trained translator(nn::Recompute recompute) {
  const auto model =
      std::make_shared<models::Transformer>(models::TransformerOptions{.source_words = 40,
                                                                       .target_words = 40,
                                                                       .encoder_layers = 2,
                                                                       .decoder_layers = 2,
                                                                       .width = 32,
                                                                       .heads = 4,
                                                                       .inner = 64,
                                                                       .dropout = kDropout,
                                                                       .shared = true,
                                                                       .recompute = recompute});
  return {model, [model](std::uint64_t number) {
            const Tensor source = drawn_ids({12, 4}, number);
            const Tensor target = drawn_ids({9, 4}, number + 1);
            const Tensor lengths = Tensor::from(std::vector<std::int64_t>{12, 9, 5, 1}, {4});
            models::SequenceToSequence& pairs = *model;
            return cross_entropy(reshape(pairs(source, lengths, target), {36, 40}), reshape(target, {36}));
          }};
}

// Losses of two steps of two micro-batches, the gradients of the second step, and the weights after it.
std::vector<std::vector<double>> trained(const std::function<Trained(nn::Recompute)>& make,
                                         nn::Recompute recompute, const amp::Precision& precision) {
  Trained subject;
  {
    const RandomScope initial(5, 0, 0);
    subject = make(recompute);
  }
  subject.model->to(test::test_device());
  optim::Adam optimizer(subject.model->parameters(), {.lr = 1e-2});
  optim::Step step(*subject.model, {&optimizer}, {.accumulate = 2});
  const amp::ResolvedPrecision resolved(precision, *subject.model);
  std::vector<std::vector<double>> results;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const RandomScope random(5, i / 2, i % 2);
    Tensor loss;
    {
      const amp::Autocast autocast(resolved);
      loss = subject.loss(i);
    }
    results.push_back(loss.to_vector<double>());
    step.backward(loss);
    if (i == 3)
      for (const Parameter& parameter : subject.model->parameters())
        results.push_back(parameter.gradient().to_vector<double>());
    if (step.ready()) step.apply();
  }
  for (const Parameter& parameter : subject.model->parameters())
    results.push_back(parameter.value().to_vector<double>());
  return results;
}

}  // namespace

TEST_CASE("recomputed activations change no bit of a Transformer's training", "[recompute]") {
  using models::GptPositions;
  using nn::BlockActivation;
  const std::function<Trained(nn::Recompute)> makers[] = {
      [](nn::Recompute r) { return gpt(r, GptPositions::rotary, BlockActivation::swiglu); },
      [](nn::Recompute r) { return gpt(r, GptPositions::alibi, BlockActivation::gelu_tanh); }, bert, vit,
      translator};
  amp::Precision by_layer = amp::Precision::amp_bf16();
  by_layer.layers.push_back({.match = "mlp|intermediate|linear1", .dtype = DType::f32});
  by_layer.layers.push_back({.match = "attn|attention", .dtype = DType::bf16, .backward = DType::f32});
  for (const amp::Precision& precision : {amp::Precision::fp32(), amp::Precision::amp_bf16(), by_layer})
    for (const auto& make : makers) {
      const auto kept = trained(make, nn::Recompute::none, precision);
      // Without the numbers in the report of a failure, which are many.
      for (const nn::Recompute recompute : {nn::Recompute::mlp, nn::Recompute::block}) {
        const bool same = trained(make, recompute, precision) == kept;
        CHECK(same);
      }
    }
}

TEST_CASE("a model with its past as tensors is not recomputed", "[recompute]") {
  const auto gradients = [](nn::Recompute recompute) {
    const RandomScope random(5, 0, 0);
    const auto model = gpt(recompute, models::GptPositions::rotary, nn::BlockActivation::swiglu).model;
    model->to(test::test_device());
    TensorList inputs{drawn_ids({2, 3}, 1),
                      Tensor::from(std::vector<std::int64_t>{1, 2, 3, 1, 2, 3}, {2, 3}, test::test_device())};
    for (std::uint64_t i = 0; i < 4; ++i)  // keys and values of two layers
      inputs.push_back(test::random_tensor({2, 2, 1, 8}, DType::f32, i));
    const TensorList outputs = model->all_outputs(inputs);
    CHECK(outputs[1].size(2) == 4);
    backward(sum(outputs[0]));
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : model->parameters())
      all.push_back(parameter.gradient().to_vector<double>());
    return all;
  };
  const bool same = gradients(nn::Recompute::block) == gradients(nn::Recompute::none);
  CHECK(same);
}
