// Checks before any recipe of a Transformer: the first loss, a batch learnt by heart, and micro-batches that
// are one batch. tests/models/gpt_test.cpp and vit_test.cpp have some of them too.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "autograd/modes.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "core/random.h"
#include "models/bert.h"
#include "models/gpt.h"
#include "models/vit.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

std::vector<std::int64_t> drawn(Index count, std::uint32_t below, std::uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<std::int64_t> ids;
  for (Index i = 0; i < count; ++i) ids.push_back(random.below(below));
  return ids;
}

Tensor on_device(const std::vector<std::int64_t>& ids, const Shape& shape) {
  return Tensor::from(ids, shape, test::test_device());
}

models::BertOptions small_bert(Index vocabulary) {
  return {.vocabulary = vocabulary,
          .width = 32,
          .layers = 2,
          .heads = 4,
          .context = 16,
          .dropout = 0.0,
          .attention_dropout = 0.0};
}

// Of the words at `positions` of all texts, row after row.
Tensor masked_loss(models::Bert& model, const Tensor& texts, const std::vector<std::int64_t>& positions,
                   const std::vector<std::int64_t>& words) {
  const auto count = static_cast<Index>(positions.size());
  const Tensor hidden = model.hidden({.tokens = texts});
  const Tensor rows = reshape(hidden, {texts.numel(), hidden.size(2)});
  return cross_entropy(model.word_scores(index_select(rows, on_device(positions, {count}), 0)),
                       on_device(words, {count}));
}

// Weights after a step on parts of a batch: loss(first, last) of samples first … last − 1 with its targets.
struct Part {
  Tensor loss;
  double targets;
};
std::vector<double> weights_after(nn::Module& model, const std::vector<Index>& borders,
                                  const std::function<Part(Index first, Index last)>& part) {
  optim::Sgd optimizer(model.parameters(), {.lr = 1.0});
  optim::Step step(model, {&optimizer}, {.accumulate = static_cast<int>(borders.size()) - 1});
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    const Part at = part(borders[i], borders[i + 1]);
    step.backward(at.loss, at.targets);
  }
  step.apply();
  std::vector<double> weights;
  for (const Parameter& parameter : model.parameters())
    for (const double weight : parameter.value().to_vector<double>()) weights.push_back(weight);
  return weights;
}

}  // namespace

TEST_CASE("BERT starts with equal probabilities of words", "[bert]") {
  const RandomScope random(1, 0, 0);
  models::Bert model(small_bert(8000));
  model.to(test::test_device());
  const NoGrad no_grad;
  const double loss =
      masked_loss(model, on_device(drawn(64, 8000, 1), {4, 16}), {3, 17, 40, 41, 63}, drawn(5, 8000, 2))
          .item();
  CHECK(std::abs(loss - std::log(8000.0)) < 0.1);
}

TEST_CASE("a small BERT learns the masked words of a batch by heart", "[bert]") {
  const RandomScope random(1, 0, 0);
  models::Bert model(small_bert(20));
  model.to(test::test_device());
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  optim::Step step(model, {&optimizer}, {});
  const Tensor texts = on_device(drawn(64, 20, 1), {4, 16});
  const std::vector<std::int64_t> positions{3, 17, 40, 41, 63}, words = drawn(5, 20, 2);
  double last = 0.0;
  for (int i = 0; i < 40; ++i) {
    const Tensor loss = masked_loss(model, texts, positions, words);
    last = loss.item();
    step.backward(loss);
    step.apply();
  }
  CHECK(last < 0.05);
}

// Texts have different numbers of targets, so a mean of means would differ.
TEST_CASE("micro-batches of a Transformer's step are one batch", "[gpt][bert][vit]") {
  const std::vector<Index> whole{0, 6}, parts{0, 1, 4, 6};
  const auto compare = [&](const auto& make, const auto& part_of) {
    std::vector<std::vector<double>> weights;
    for (const auto& borders : {whole, parts}) {
      const RandomScope random(3, 0, 0);
      const auto model = make();
      model->to(test::test_device());
      weights.push_back(weights_after(*model, borders,
                                      [&](Index first, Index last) { return part_of(*model, first, last); }));
    }
    CHECK(test::normalised_error(weights[1], weights[0]) < 1e-6);
  };
  compare(
      [] {
        return std::make_shared<models::Gpt>(
            models::GptOptions{.vocabulary = 20, .layers = 2, .width = 16, .heads = 2, .context = 8});
      },
      [](models::Gpt& model, Index first, Index last) {
        // Text n has n + 1 targets.
        const std::vector<std::int64_t> ids = drawn(8 * 6, 20, 1);
        std::vector<std::int64_t> words, targets;
        double count = 0.0;
        for (Index t = 0; t < 8; ++t)
          for (Index n = first; n < last; ++n) {
            words.push_back(ids[static_cast<std::size_t>(t * 6 + n)]);
            targets.push_back(t <= n ? words.back() : models::CausalModel::kNoTarget);
            count += t <= n ? 1.0 : 0.0;
          }
        const Shape shape{8, last - first};
        return Part{model.loss(model.advance(on_device(words, shape), {}).hidden,
                               {.words = on_device(targets, shape)}),
                    count};
      });
  compare([] { return std::make_shared<models::Bert>(small_bert(20)); },
          [](models::Bert& model, Index first, Index last) {
            const Tensor texts = on_device(drawn(6 * 16, 20, 1), {6, 16}).rows(first, last - first);
            std::vector<std::int64_t> positions, words;
            for (Index n = first; n < last; ++n)
              for (Index i = 0; i <= n; ++i) {
                positions.push_back((n - first) * 16 + i);
                words.push_back((3 * n + i) % 20);
              }
            return Part{masked_loss(model, texts, positions, words), static_cast<double>(words.size())};
          });
  compare(
      [] {
        return std::make_shared<models::Vit>(models::VitOptions{
            .num_classes = 10, .image = {8, 8}, .patch = 4, .layers = 2, .width = 16, .heads = 2});
      },
      [](models::Vit& model, Index first, Index last) {
        const Tensor images = test::random_tensor({6, 8, 8, 3});
        const Index count = last - first;
        return Part{cross_entropy(model(images.rows(first, count)),
                                  on_device({0, 1, 2, 3, 4, 5}, {6}).rows(first, count)),
                    static_cast<double>(count)};
      });
}
