// BERT: the values of a tiny model, properties of padding, and the heads that tasks ask for.
#include "models/bert.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "core/backend.h"
#include "models/model_options.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

// Element j of all parameters, counted from 1, is ½·sin j. Queries, keys and values come one after the other,
// each with its bias.
void set_sines(models::Bert& model) {
  std::map<std::string, Tensor> values;
  for (const Parameter& parameter : model.parameters()) values[parameter.name()] = parameter.value();
  int j = 0;
  const auto fill = [&](const Tensor& tensor, Index first, Index count) {
    for (Index i = first; i < first + count; ++i)
      tensor.data<float>()[i] = static_cast<float>(0.5 * std::sin(++j));
    tensor.storage()->bump_version();
  };
  const auto all = [&](const std::string& name) {
    INFO(name);
    REQUIRE(values.contains(name));
    fill(values[name], 0, values[name].numel());
  };
  const std::string layer = "bert.encoder.layer.0.";
  for (const char* const table : {"word", "position", "token_type"})
    all(std::string("bert.embeddings.") + table + "_embeddings.weight");
  const auto both = [&](const std::string& module) {
    all(module + ".weight");
    all(module + ".bias");
  };
  both("bert.embeddings.LayerNorm");
  for (Index part = 0; part < 3; ++part) {
    fill(values[layer + "attention.self.query_key_value.weight"], part * 16, 16);
    fill(values[layer + "attention.self.query_key_value.bias"], part * 4, 4);
  }
  for (const char* const module : {"attention.output.dense", "attention.output.LayerNorm",
                                   "intermediate.dense", "output.dense", "output.LayerNorm"})
    both(layer + module);
  both("cls.predictions.transform.dense");
  both("cls.predictions.transform.LayerNorm");
  all("cls.predictions.bias");
  CHECK(j == 325);
}

double norm_of(std::span<const double> values) {
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

}  // namespace

// Values in FP64 from an independent implementation in numpy.
TEST_CASE("a tiny BERT has the published loss and gradients", "[bert]") {
  models::Bert model({.vocabulary = 5,
                      .width = 4,
                      .layers = 1,
                      .heads = 2,
                      .context = 3,
                      .dropout = 0.0,
                      .attention_dropout = 0.0});
  set_sines(model);
  const Tensor hidden = model.hidden({.tokens = ids({0, 3, 1}, {1, 3}), .segments = ids({0, 0, 1}, {1, 3})});
  const Tensor logits = model.word_scores(index_select(reshape(hidden, {3, 4}), ids({1}, {1}), 0));
  const Tensor loss = cross_entropy(logits, ids({4}, {1}));
  CHECK(loss.item() == Approx(2.59993534).epsilon(2e-6));
  const auto row = logits.to_vector<double>();
  const std::vector<double> expected{.512257, .056117, .608222, -.192895, -.838485};
  for (std::size_t i = 0; i < row.size(); ++i) CHECK(row[i] == Approx(expected[i]).margin(3e-6));
  backward(loss);
  std::map<std::string, std::vector<double>> gradients;
  double squares = 0.0;
  for (const Parameter& parameter : model.parameters()) {
    gradients[parameter.name()] = parameter.gradient().to_vector<double>();
    squares += std::pow(norm_of(gradients[parameter.name()]), 2);
  }
  CHECK(std::sqrt(squares) == Approx(2.19363189).epsilon(1e-5));
  const std::string projection = "bert.encoder.layer.0.attention.self.query_key_value.";
  const std::span weights(gradients[projection + "weight"]), biases(gradients[projection + "bias"]);
  CHECK(norm_of(gradients["bert.embeddings.word_embeddings.weight"]) == Approx(.99622794).epsilon(1e-5));
  CHECK(norm_of(weights.first(16)) == Approx(.00019282).margin(1e-7));
  CHECK(norm_of(weights.last(16)) == Approx(.01752744).epsilon(1e-4));
  CHECK(norm_of(biases.subspan(4, 4)) < 1e-8);  // softmax ignores what all keys share
  CHECK(norm_of(gradients["cls.predictions.bias"]) == Approx(1.04492956).epsilon(1e-5));
}

TEST_CASE("BERT has the published numbers of parameters", "[bert]") {
  const auto count = [](models::BertOptions options) {
    options.vocabulary = 8000;
    options.width = 256;
    options.layers = options.heads = 4;
    options.context = 128;
    return models::Bert(options).parameter_count();
  };
  CHECK(count({.next_sentence = true}) == 5'381'442);                          // with pooler and both heads
  CHECK(count({.masked_words = false, .classes = 2}) == 5'306'624 + 2 * 257);  // with pooler and classifier
}

TEST_CASE("padding changes no results of BERT", "[bert]") {
  models::Bert model({.vocabulary = 9, .width = 8, .layers = 2, .heads = 2, .context = 8, .classes = 3});
  model.eval();
  const NoGrad no_grad;
  const Tensor alone = model(ids({1, 5, 2}, {3, 1}), ids({3}, {1}));
  const Tensor padded = model(ids({1, 4, 5, 4, 2, 4, 7, 4, 8, 4}, {5, 2}), ids({3, 5}, {2}));
  const auto a = alone.to_vector<float>(), b = padded.to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i) CHECK(a[i] == Approx(b[i]).margin(1e-6));
}

TEST_CASE("errors of BERT name the rule", "[bert]") {
  CHECK_FAILS(UserError, models::Bert({.width = 10, .layers = 1, .heads = 3}), "3 heads");
  CHECK_FAILS(UserError, models::Bert({.masked_words = false}), "needs a head");
  models::Bert model({.vocabulary = 9, .width = 8, .layers = 1, .heads = 2, .context = 4});
  CHECK_FAILS(UserError, model.hidden({.tokens = ids({1, 2, 3, 4, 5}, {1, 5})}),
              "a text of 5 tokens, padding included, has more than the 4 positions of the model");
  CHECK_FAILS(UserError, model.hidden({.tokens = ids({1, 2}, {2, 1}), .lengths = ids({1, 0}, {2})}),
              "text 1 of the batch has no token");
  CHECK_FAILS(UserError, model.hidden({.tokens = ids({1, 9}, {1, 2})}),
              "index 9 at position [0,1] lies outside [0,9)");
  models::ModelOptions options;
  options.spec =
      options::Given{{"name", "bert"}, {"width", 8}, {"num_layers", 1}, {"heads", 2}, {"context", 4}};
  const auto masked = models::build_as<models::MaskedModel>(options, {.dtype = DType::i64, .words = 9});
  CHECK_FALSE(masked->scores_next());
  const auto encoder =
      models::build_as<models::TextEncoder>(options, {.dtype = DType::i64, .classes = 3, .words = 9});
  CHECK(encoder->classes() == 3);
  const auto finder = models::build_as<models::SpanModel>(options, {.dtype = DType::i64, .words = 9});
  CHECK(finder->span_scores(finder->hidden({.tokens = ids({1, 2, 3}, {1, 3})})).shape() == Shape{1, 3, 2});
  CHECK_FAILS(UserError, model.span_scores(Tensor::zeros({1, 3, 8})), "has no head for answers");
  CHECK_FAILS(UserError, finder->word_scores(Tensor::zeros({3, 8})), "has no head for masked words");
}
