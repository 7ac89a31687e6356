// A small BERT that finds answers against Hugging Face's BertForQuestionAnswering in FP64: logits, loss and
// every gradient. tests/golden/answers.py makes the weights and the values.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "autograd/engine.h"
#include "models/weights.h"
#include "tasks/question_answering/evaluation.h"
#include "tests/golden/small_bert.h"
#include "tests/support/paths.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

constexpr double kAnswersTolerance = 1e-5;

Tensor numbers_of(const Json& list) {
  std::vector<std::int64_t> values;
  for (const Json& row : list) {
    if (row.is_number()) values.push_back(row.get<std::int64_t>());
    for (const Json& value : row.is_array() ? row : Json::array())
      values.push_back(value.get<std::int64_t>());
  }
  const auto rows = static_cast<Index>(list.size());
  const auto all = static_cast<Index>(values.size());
  return Tensor::from(values, list.at(0).is_array() ? Shape{rows, all / rows} : Shape{rows});
}

}  // namespace

TEST_CASE("BERT for answers agrees with Hugging Face's", "[bert][answers]") {
  const std::string path = test::source_path("tests/golden/bert_answers.safetensors");
  const Json golden = Json::parse(safetensors::File(path).metadata().at("values"));
  models::BertOptions options = small_bert();
  options.masked_words = false;
  options.spans = true;
  models::Bert model(options);
  models::load_weights(model, path);
  datasets::Batch batch({{"tokens", numbers_of(golden["tokens"])},
                         {"segments", numbers_of(golden["segments"])},
                         {"lengths", numbers_of(golden["lengths"])},
                         {"start", numbers_of(golden["start"])},
                         {"end", numbers_of(golden["end"])},
                         {"mask", Tensor::zeros({2, 6})}},
                        2);
  batch["mask"].data<float>()[11] = datasets::kPaddingScore;
  const Tensor scores = tasks::window_scores(model, batch);
  std::vector<double> expected;
  for (const Json& text : golden["logits"])
    for (const Json& token : text)
      for (const Json& score : token) expected.push_back(score.get<double>());
  auto got = scores.to_vector<double>();
  got.resize(22);  // the padding is at the end
  expected.resize(22);
  CHECK(test::normalised_error(got, expected) < kAnswersTolerance);
  const Tensor loss = tasks::span_loss(scores, batch);
  CHECK(loss.item() == Approx(golden["loss"].get<double>()).epsilon(kAnswersTolerance));
  backward(loss);
  const auto norm = [&](const std::string& name) { return golden["norms"].at(name).get<double>(); };
  for (const Parameter& parameter : model.parameters()) {
    INFO(parameter.name());
    double squares = 0.0, wanted = 0.0;
    for (const double value : parameter.gradient().to_vector<double>()) squares += value * value;
    for (const std::string& name : library_names(parameter.name())) wanted += std::pow(norm(name), 2);
    CHECK(std::sqrt(squares) == Approx(std::sqrt(wanted)).epsilon(1e-4).margin(1e-7));
  }
}
