// A small BERT with two heads against Hugging Face's BertForPreTraining in FP64: logits, loss and every
// gradient. tests/golden/published.py makes the weights and the values.
#include "models/bert.h"

#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "models/weights.h"
#include "tests/golden/small_bert.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

constexpr double kTolerance = 1e-5;

std::string golden_file(const std::string& name) {
  return test::source_path("tests/golden/" + name + ".safetensors");
}

// The gradient of a parameter with the library's names; joined projections are three of them.
std::vector<double> gradient_in(const safetensors::File& golden, const std::string& name) {
  std::vector<double> all;
  for (const std::string& one : library_names(name))
    for (const double value : golden.read("gradient/" + one).to_vector<double>()) all.push_back(value);
  return all;
}

}  // namespace

TEST_CASE("BERT agrees with Hugging Face's", "[bert]") {
  const safetensors::File golden(golden_file("bert_values"));
  models::BertOptions options = small_bert();
  options.next_sentence = true;
  models::Bert model(options);
  models::load_weights(model, golden_file("bert"));
  const Tensor hidden = model.hidden({.tokens = golden.read("tokens"),
                                      .segments = golden.read("segments"),
                                      .lengths = golden.read("lengths")});
  const Tensor all = model.word_scores(reshape(hidden, {12, 8})), next = model.next_scores(hidden);
  const auto error = [](const Tensor& got, const Tensor& expected) {
    return test::normalised_error(got.to_vector<double>(), expected.to_vector<double>());
  };
  CHECK(error(slice(all, 0, 0, 10), golden.read("logits")) < kTolerance);  // the padding is at the end
  CHECK(error(next, golden.read("next logits")) < kTolerance);
  const Tensor loss = cross_entropy(all, reshape(golden.read("labels"), {12}), {.ignore_index = -100}) +
                      cross_entropy(next, golden.read("next"));
  CHECK(loss.item() == Approx(golden.read("loss").item()).epsilon(kTolerance));
  backward(loss);
  for (const Parameter& parameter : model.parameters()) {
    INFO(parameter.name());
    CHECK(test::normalised_error(parameter.gradient().to_vector<double>(),
                                 gradient_in(golden, parameter.name())) < kTolerance);
  }
}
