// diverge: a language model whose loss is a mean over 8,192 tokens. The gradient of a logit is about
// (probability)/8192, far below 2^-25, where FP16 underflows. Only the gradients of words in the text remain,
// and the model never learns which words are improbable. A loss scale of 1,024 keeps the other gradients.
#include <fmt/core.h>

#include <cmath>

#include "amp/gradient_histogram.h"
#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "core/random.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "samples/package_descriptions.h"
#include "studies/demo/arms.h"

namespace tandem::demo {

namespace {

struct Sizes {
  Index vocabulary, embedding, hidden, batch, steps, validation;
  double lr;
};

// Maps two words to scores of the next word.
class Trigram final : public nn::Module {
 public:
  explicit Trigram(const Sizes& sizes)
      : embedding_(
            add_child("embedding", std::make_shared<nn::Embedding>(sizes.vocabulary, sizes.embedding))),
        hidden_(add_child("hidden", std::make_shared<nn::Linear>(2 * sizes.embedding, sizes.hidden))),
        output_(add_child("output", std::make_shared<nn::Linear>(sizes.hidden, sizes.vocabulary))) {}

  // [N,2] → [N,vocabulary]
  Tensor forward(const Tensor& words) override {
    const Tensor both = (*embedding_)(words);
    return (*output_)(tanh(((*hidden_)(reshape(both, {words.size(0), both.size(1) * both.size(2)})))));
  }
  std::string describe() const override { return "Trigram perceptron"; }

 private:
  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Linear> hidden_, output_;
};

struct Tokens {
  Tensor words, next;  // [N,2], [N]
};

// Trigrams `first` to `first` + `count` of an order that spreads neighbours over the text, since descriptions
// of similar packages are adjacent.
Tokens trigrams(const datasets::PackedIds& text, Index first, Index count) {
  constexpr Index kStride = 1'000'003;  // a prime, so that the order visits every place
  const Index places = static_cast<Index>(text.size()) - 2;
  std::vector<std::int64_t> words, next;
  for (Index i = first; i < first + count; ++i) {
    const auto at = static_cast<std::size_t>(i * kStride % places);
    words.push_back(text[at]);
    words.push_back(text[at + 1]);
    next.push_back(text[at + 2]);
  }
  return {Tensor::from(words, {count, 2}), Tensor::from(next, {count})};
}

double perplexity(Trigram& model, const datasets::PackedIds& text, const Sizes& sizes) {
  const NoGrad no_grad;
  constexpr Index kPiece = 2048;
  const Index count =
      std::min<Index>(sizes.validation, static_cast<Index>(text.size()) - 2) / kPiece * kPiece;
  double sum = 0.0;
  for (Index first = 0; first < count; first += kPiece) {
    const Tokens tokens = trigrams(text, first, kPiece);
    sum += cross_entropy(model(tokens.words), tokens.next).item() * kPiece;
  }
  return std::exp(sum / static_cast<double>(count));
}

ArmResult train(const Arm& arm, const datasets::TextCorpus& corpus, const Sizes& sizes, Session& session) {
  const RandomScope random(1, 0, 0);
  Trigram model(sizes);
  optim::Adam adam(model.parameters(), {.lr = sizes.lr});
  optim::Step step(model, {&adam}, amp::step_options(arm.precision));
  const amp::ResolvedPrecision resolved(arm.precision);
  ArmResult result{.curve = {.name = arm.name}};
  for (Index i = 0; i < sizes.steps; ++i) {
    const Tokens tokens = trigrams(corpus.train.ids, i * sizes.batch, sizes.batch);
    Tensor loss;
    {
      const amp::Autocast autocast(resolved);
      loss = cross_entropy(model(tokens.words), tokens.next);
    }
    step.backward(loss);
    step.apply();
    result.log(i + 1, sizes.steps, loss, session);
  }
  result.skipped = step.synchronize().skipped;
  result.perplexity = perplexity(model, corpus.validation.ids, sizes);
  return result;
}

// Exponents of the logit gradients at the start of training.
amp::ExponentHistogram logit_gradients(const datasets::TextCorpus& corpus, const Sizes& sizes, Index batch) {
  const RandomScope random(1, 0, 0);
  Trigram model(sizes);
  amp::GradientCollector collector(model);
  const Tokens tokens = trigrams(corpus.train.ids, 0, batch);
  backward(cross_entropy(model(tokens.words), tokens.next));
  for (const auto& layer : collector.layers())
    if (layer.name == "loss") return layer.activations;
  return {};
}

double flushed_share(const amp::ExponentHistogram& histogram, int log2_scale) {
  return static_cast<double>(histogram.flushed(log2_scale)) /
         static_cast<double>(std::max<std::int64_t>(1, histogram.total() - histogram.zeros()));
}

}  // namespace

void run_diverge(Session& session) {
  const Sizes sizes = session.small() ? Sizes{1000, 8, 16, 65536, 10, 4096, 0.1}
                                      : Sizes{8000, 64, 128, 8192, 300, 65536, 0.003};
  const auto corpus = datasets::package_corpus(text_path(session, "diverge"),
                                               {.tokenizer = {}, .vocabulary = {.size = sizes.vocabulary}});
  const auto few = logit_gradients(corpus, sizes, 512), many = logit_gradients(corpus, sizes, sizes.batch);
  session.say(
      fmt::format("A trigram perceptron with {} words learns for {} steps of {} tokens. FP16 rounds to zero, "
                  "of the gradients of its logits:\n"
                  "{:.1f} % if the loss is a mean over 512 tokens, {:.1f} % over {}; {:.1f} % with a loss "
                  "scale of 1,024.\n",
                  corpus.vocabulary.size(), sizes.steps, sizes.batch, 100.0 * flushed_share(few, 0),
                  100.0 * flushed_share(many, 0), sizes.batch, 100.0 * flushed_share(many, 10)));

  const std::vector<Arm> arms = scaling_arms(1024.0);
  std::vector<ArmResult> results;
  for (const Arm& arm : arms) results.push_back(train(arm, corpus, sizes, session));
  const Json rows = show_arms(session, "A language model with and without a loss scale", arms, results);
  session.values = {{"flushed_512", flushed_share(few, 0)},
                    {"flushed", flushed_share(many, 0)},
                    {"flushed_scale_1024", flushed_share(many, 10)},
                    {"arms", rows}};
  const double wide = results[0].perplexity, lost = results[1].perplexity, kept = results[2].perplexity;
  const bool shown =
      lost > 1.1 * wide && std::abs(kept / wide - 1.0) < 0.05 && results[3].perplexity < 1.1 * wide;
  session.verdict(shown, fmt::format("Without a loss scale, FP16 ends at a perplexity of {:.0f}, {:.1f} "
                                     "times FP32's {:.1f}; with a scale of 1,024 at {:.1f}.",
                                     lost, lost / wide, wide, kept));
}

}  // namespace tandem::demo
