// Loss and metrics of a language model, and the state carried between batches.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/modes.h"
#include "autograd/ops/random.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"
#include "core/random.h"
#include "data/loader.h"
#include "models/language_model.h"
#include "tasks/language/evaluation.h"
#include "tasks/language/penalties.h"
#include "tasks/language/task.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/tasks/trial.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

constexpr Index kSteps = 5, kStreams = 3;

// A task on a text of its own, in a folder that goes with it.
class Trial : public testing::TaskTrial {
 public:
  explicit Trial(const std::vector<std::string>& overrides = {}, const std::string& test = "") {
    std::string text;
    RandomStream random({.seed = 4, .purpose = RandomPurpose::synthetic_data});
    for (int i = 0; i < 3000; ++i) text += fmt::format("w{}{}", random.below(12), i % 9 == 8 ? "\n" : " ");
    make({{"task", "language"},
          {"model",
           {{"name", "language_model"}, {"embedding", 6}, {"units", 8}, {"dropout", 0.0}, {"init", 0.5}}},
          {"data",
           {{"name", "text"},
            {"train", write("text.txt", text)},
            {"batch_size", kStreams},
            {"steps", kSteps}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 1.0}}}},
         test.empty() ? overrides : with_test(overrides, test));
  }

  models::LanguageModel& model() { return model_as<models::LanguageModel>(); }
  const tasks::LanguageData& data() const {
    return static_cast<const tasks::LanguageData&>(*TaskTrial::data());
  }

 private:
  std::vector<std::string> with_test(std::vector<std::string> overrides, const std::string& test) const {
    overrides.push_back("data.test=" + write("test.txt", test));
    return overrides;
  }
};

datasets::Batch batch_of(const Tensor& token, const Tensor& target, Index targets) {
  return datasets::Batch({{"token", token}, {"target", target}}, targets);
}

// -ln p of every target by a sum over the words, in double; targets below 0 count 0.
std::vector<double> nll_of(const Tensor& logits, const Tensor& target) {
  const std::vector<double> scores = logits.to_vector<double>();
  const std::vector<std::int64_t> ids = target.to_vector<std::int64_t>();
  const auto words = static_cast<std::size_t>(logits.size(-1));
  std::vector<double> nll;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    double sum = 0.0;
    for (std::size_t w = 0; w < words; ++w) sum += std::exp(scores[i * words + w]);
    nll.push_back(ids[i] < 0 ? 0.0 : std::log(sum) - scores[i * words + static_cast<std::size_t>(ids[i])]);
  }
  return nll;
}

}  // namespace

TEST_CASE("pieces of a stream give the loss of the whole", "[tasks][language]") {
  Trial trial;
  const datasets::Batch whole = trial.task().synthetic_batch(kStreams, 1, {});
  const Tensor &token = whole["token"], &target = whole["target"];
  const double expected = trial.task().loss(whole).item();
  tasks::CarriedState carry;
  const tasks::LossContext context{.carry = &carry};
  double sum = 0.0;
  for (const auto& [first, last] : {std::pair<Index, Index>{0, 2}, {2, 3}, {3, kSteps}}) {
    const Index targets = (last - first) * kStreams;
    const double loss =
        trial.task()
            .loss(batch_of(token.rows(first, last - first), target.rows(first, last - first), targets),
                  context)
            .item();
    sum += loss * static_cast<double>(targets);
  }
  CHECK(sum / (kSteps * kStreams) == Approx(expected).epsilon(1e-6));
  CHECK(carry.fields().size() == 2);
}

TEST_CASE("padding of streams does not change their state", "[tasks][language]") {
  Trial trial({"data.random_steps=true"});
  const auto source = trial.task().training_source({});
  datasets::Loader loader(source, {});
  const auto batch = loader.next();
  const Index words = (batch->samples + kStreams - 1) / kStreams;
  REQUIRE(words < (*batch)["token"].size(0));
  tasks::CarriedState carry;
  const double loss = trial.task().loss(*batch, {.carry = &carry}).item();
  const NoGrad no_grad;
  const auto advanced = trial.model().advance((*batch)["token"].rows(0, words), {});
  const Tensor logits = trial.model().scores(advanced.hidden);
  for (const char* name : {"h", "c"})
    CHECK(carry.find(name).to_vector<float>() == advanced.state.find(name).to_vector<float>());
  double nll = 0.0;
  for (const double one : nll_of(logits, (*batch)["target"].rows(0, words))) nll += one;
  CHECK(loss == Approx(nll / static_cast<double>(batch->samples)).epsilon(1e-5));
}

TEST_CASE("the figures of a language model count every target once", "[tasks][language]") {
  Trial trial;
  trial.model().eval();
  const auto source = trial.task().evaluation_source("test", {});
  tasks::LanguageEvaluation evaluation(trial.model());
  models::State state;
  double nll = 0.0;
  Index targets = 0;
  const NoGrad no_grad;
  datasets::Loader loader(source, {});
  while (const auto batch = loader.next()) {
    evaluation.add(*batch);
    const auto advanced = trial.model().advance((*batch)["token"], state);
    const Tensor logits = trial.model().scores(advanced.hidden);
    state = advanced.state;
    for (const double one : nll_of(logits, (*batch)["target"])) nll += one;
    targets += batch->samples;
  }
  CHECK(targets == static_cast<Index>(trial.data().split("test").ids.size()));
  const tasks::Metrics metrics = evaluation.metrics();
  CHECK(tasks::metric(metrics, "loss") == Approx(nll / static_cast<double>(targets)).epsilon(1e-6));
  CHECK(tasks::metric(metrics, "perplexity") ==
        Approx(std::exp(nll / static_cast<double>(targets))).epsilon(1e-6));
}

TEST_CASE("a model of characters says how many bits it needs for one", "[tasks][language]") {
  // The ends of lines are characters, and so is one that the model does not know.
  const std::string text = "w1 w2?\nw3\nw\n";
  Trial trial({"data.tokenizer=characters", "data.eval_batch_size=1"}, text);
  trial.model().eval();
  const auto evaluation = trial.task().evaluation(false);
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  models::State state;
  double nll = 0.0;
  const NoGrad no_grad;
  while (const auto batch = loader.next()) {
    evaluation->add(*batch);
    const auto advanced = trial.model().advance((*batch)["token"], state);
    const Tensor logits = trial.model().scores(advanced.hidden);
    state = advanced.state;
    for (const double one : nll_of(logits, (*batch)["target"])) nll += one;
  }
  const tasks::Metrics metrics = evaluation->metrics();
  const auto characters = static_cast<double>(text.size());
  CHECK(tasks::metric(metrics, "bits_per_character") ==
        Approx(nll / (std::log(2.0) * characters)).epsilon(1e-6));
  CHECK(std::exp2(tasks::metric(metrics, "bits_per_character")) ==
        Approx(tasks::metric(metrics, "perplexity")).epsilon(1e-9));
  Trial({"data.tokenizer=characters", "checkpoint.best=bits_per_character"});
  CHECK_THAT(user_error_of([] { Trial({"checkpoint.best=bits_per_character"}); }),
             Contains("checkpoint.best") && Contains("character models, but the tokenizer is \"words\""));
  const std::unique_ptr<tasks::Evaluation> of_words = Trial().task().evaluation(false);
  CHECK_THAT(user_error_of([&] { tasks::metric(of_words->metrics(), "bits_per_character"); }),
             Contains("there is no metric"));
}

TEST_CASE("a split of fewer words than streams is named", "[tasks][language]") {
  Trial trial({"data.eval_batch_size=8"}, "w1 w2 w3\n");
  CHECK_THAT(user_error_of([&] { trial.task().evaluation_source("test", {}); }),
             Contains("the test split has 4 words, too few for 8 parallel streams") &&
                 Contains("data.eval_batch_size"));
}

TEST_CASE("a language model's words are saved with its weights", "[tasks][language]") {
  Trial trial;
  const tasks::Json description = trial.data().description();
  const auto recalled =
      std::static_pointer_cast<const tasks::LanguageData>(tasks::LanguageData::recall(description));
  CHECK(recalled->description() == description);
  CHECK_FALSE(recalled->is_open());
  trial.data().require_like(description, "w.safetensors");
  tasks::Json other = description;
  other["vocabulary"][4] = "elsewhere";
  CHECK_THAT(
      user_error_of([&] { trial.data().require_like(other, "w.safetensors"); }),
      Contains("w.safetensors: were trained with other words") && Contains("number 4, \"elsewhere\" there"));
  other.erase("tokenizer");
  CHECK_THAT(user_error_of([&] { tasks::LanguageData::recall(other); }),
             Contains("the description is damaged"));
}

TEST_CASE("a language model's codec is saved with its weights", "[tasks][language]") {
  for (const std::string codec :
       {R"({"name": "byte_bpe", "size": 270})", R"({"name": "wordpiece", "size": 30})"}) {
    CAPTURE(codec);
    Trial trial({"data.codec=" + codec});
    const tasks::LanguageData& data = trial.data();
    CHECK(data.units() == "tokens");
    CHECK(data.vocabularies().front().words.size() == static_cast<std::size_t>(data.codec().size()));
    CHECK(trial.task().export_metadata().contains("tandem.codec"));
    const tasks::Json description = data.description();
    const auto recalled = std::static_pointer_cast<const tasks::LanguageData>(
        tasks::LanguageData::recall(tasks::Json::parse(description.dump())));
    CHECK(recalled->description() == description);
    CHECK(recalled->codec().encode("w7 w3").ids == data.codec().encode("w7 w3").ids);
    data.require_like(description, "w.safetensors");
    tasks::Json other = description;
    other["codec"][codec.find("byte") == std::string::npos ? "lower_case" : "special_tokens_in_text"] =
        codec.find("byte") != std::string::npos;
    CHECK_THAT(user_error_of([&] { data.require_like(other, "w.safetensors"); }),
               Contains("w.safetensors: were trained with codec") && Contains("data.codec"));
  }
}

TEST_CASE("overfitting a language model takes the first words of the text", "[tasks][language]") {
  Trial trial({"data.overfit_batches=2"});
  const auto source = trial.task().training_source({});
  CHECK(source->batches(0) == 2);
  CHECK(trial.task().validation_split() == "train");
}

TEST_CASE("a dropped word reads as zeros wherever it stands, the others as more", "[tasks][language]") {
  Trial trial({"model.word_dropout=0.5"});
  models::LanguageModel& model = trial.model();
  const Index words = model.options().vocabulary;
  std::vector<std::int64_t> ids;
  for (Index i = 0; i < words; ++i) ids.push_back(i);
  ids.insert(ids.end(), ids.begin(), ids.end());  // twice
  const Tensor token = Tensor::from(ids, {2, words});
  const Tensor table = model.parameters()[0].value();
  std::vector<float> factors;
  {
    const RandomScope random(5, 1, 0);
    factors = dropout(Tensor::full({words, 1}, 1.0), 0.5).to_vector<float>();
  }
  const auto logits = [&] {
    const RandomScope random(5, 1, 0);
    return model(token).to_vector<float>();
  };
  const std::vector<float> dropped = logits();
  const std::vector<float> original = table.to_vector<float>();
  for (Index word = 0; word < words; ++word)
    backend_for({}).update().scale_and_limit(
        table.rows(word, 1), static_cast<double>(factors[static_cast<std::size_t>(word)]), 1e30);
  model.eval();  // no word is dropped
  CHECK(logits() == dropped);
  CHECK(table.to_vector<float>() != original);
}

TEST_CASE("penalties on what the last layer gives", "[tasks][language]") {
  const Tensor raw = Tensor::from(std::vector<float>{1, 2, 4, -1, 0, 3}, {3, 1, 2});
  const Tensor dropped = Tensor::from(std::vector<float>{0, 4, 8, 0, 0, 6}, {3, 1, 2});
  const Tensor loss = Tensor::full({}, 1.5);
  const auto value = [&](double ar, double tar) {
    return tasks::penalised(loss, {.hidden = dropped, .state = {}, .raw = raw}, ar, tar).item();
  };
  CHECK(value(0.0, 0.0) == 1.5);
  CHECK(value(2.0, 0.0) == Approx(1.5 + 2.0 * (16 + 64 + 36) / 6.0));
  CHECK(value(0.0, 3.0) == Approx(1.5 + 3.0 * (9 + 9 + 16 + 16) / 4.0));
  const auto first = [](const Tensor& t) { return t.rows(0, 1); };
  const models::CausalModel::Advanced step{.hidden = first(dropped), .state = {}, .raw = first(raw)};
  CHECK(tasks::penalised(loss, step, 1.0, 1.0).item() == Approx(1.5 + 16 / 2.0));
  // Both are part of the task's loss; their gradient reaches the cells.
  Trial plain, trial({"loss.ar=2", "loss.tar=1"});
  const datasets::Batch batch = plain.task().synthetic_batch(kStreams, 1, {});
  CHECK(trial.task().loss(batch).item() > plain.task().loss(batch).item());
}

TEST_CASE("a batch of random steps makes the rate follow its length", "[tasks][language]") {
  Trial trial({"data.random_steps=true", "data.steps=12"}), even({"data.steps=12"});
  datasets::Loader loader(trial.task().training_source({}), {});
  std::set<Index> lengths;
  while (const auto batch = loader.next()) {
    const Index steps = (batch->samples + kStreams - 1) / kStreams;
    lengths.insert(steps);
    CHECK(batch->rate_factor == static_cast<double>(steps) / 12.0);
  }
  CHECK(lengths.size() > 3);
  datasets::Loader plain(even.task().training_source({}), {});
  CHECK(plain.next()->rate_factor == 1.0);
}

TEST_CASE("mistakes in the parts of AWD-LSTM are explained", "[tasks][language]") {
  CHECK_THAT(user_error_of([] { Trial({"model.word_dropout=1"}); }), Contains("model.word_dropout"));
  CHECK_THAT(user_error_of([] { Trial({"model.weight_dropout=-0.1"}); }), Contains("model.weight_dropout"));
  CHECK_THAT(user_error_of([] { Trial({"model.last_units=9"}); }), Contains("last_units must be at most"));
  CHECK_THAT(user_error_of([] {
               Trial({"model.tied=true", "model.last_units=5"});
             }),
             Contains("equal numbers of outputs of the cells (5) and of the embedding (6)"));
  CHECK_THAT(user_error_of([] { Trial({"loss.ar=-1"}); }), Contains("loss.ar"));
}
