// Text classifiers: batches of one length after the other, effect of lengths, metrics by class.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "data/loader.h"
#include "models/text_classifier.h"
#include "tasks/text_classification/evaluation.h"
#include "tasks/text_classification/task.h"
#include "tests/support/tensors.h"
#include "tests/tasks/trial.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

// A task on 50 texts of 1 to 9 words, in a folder that goes with it.
class Trial : public testing::TaskTrial {
 public:
  explicit Trial(const std::vector<std::string>& overrides = {}) {
    std::string lines;
    for (int i = 0; i < 50; ++i) {
      lines += i % 3 == 0 ? "zero\t" : i % 3 == 1 ? "one\t" : "two\t";
      for (int w = 0; w <= i % 9; ++w) lines += fmt::format("w{} ", (i * 7 + w * w) % 13);
      lines += "\n";
    }
    const std::string path = write("texts.tsv", lines);
    make(
        {{"task", "text_classification"},
         {"model",
          {{"name", "text_classifier"}, {"embedding", 6}, {"units", 5}, {"init", 1.0}, {"dropout", 0.0}}},
         {"data",
          {{"name", "labelled_lines"}, {"train", path}, {"test", path}, {"max_words", 7}, {"batch_size", 8}}},
         {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}},
        overrides);
  }

  models::TextClassifier& model() { return model_as<models::TextClassifier>(); }
};

std::vector<float> row_of(const Tensor& logits, Index row) {
  return logits.detach().rows(row, 1).to_vector<float>();
}

}  // namespace

TEST_CASE("texts longer than the model reads are refused before the first step", "[tasks][text]") {
  const auto model = [](int context) {
    return fmt::format(R"(model={{"name": "bert", "num_layers": 1, "width": 8, "heads": 2, "context": {}}})",
                       context);
  };
  CHECK_THAT(user_error_of([&] { Trial({model(7)}); }),
             Contains("max_words") &&
                 Contains("is 7: with marks and padding texts have up to 8 tokens, but the model reads 7"));
  Trial({model(8)});
}

TEST_CASE("padding does not change the scores of a text", "[tasks][text]") {
  for (const char* pooling : {"mean", "last"}) {
    INFO(pooling);
    Trial trial({std::string("model.pooling=") + pooling, "model.num_layers=2"});
    const NoGrad no_grad;
    trial.model().eval();
    datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
    const auto batch = loader.next();
    const Tensor whole = tasks::logits_of(trial.model(), *batch);
    const auto lengths = (*batch)["length"].to_vector<std::int64_t>();
    REQUIRE((*batch)["token"].size(0) == 8);
    REQUIRE(lengths[0] < 8);
    for (Index row = 0; row < whole.size(0); ++row) {
      const Index length = lengths[static_cast<std::size_t>(row)];
      std::vector<std::int64_t> words;
      for (Index t = 0; t < length; ++t)
        words.push_back((*batch)["token"].data<std::int64_t>()[t * whole.size(0) + row]);
      CHECK(words.back() == datasets::Vocabulary::kEnd);
      const std::vector<float> alone = row_of(trial.model()(Tensor::from(words, {length, 1})), 0);
      const std::vector<float> padded = row_of(whole, row);
      for (std::size_t c = 0; c < alone.size(); ++c) CHECK(padded[c] == Approx(alone[c]).margin(1e-5));
    }
  }
}

TEST_CASE("a classifier of texts refuses texts without a word", "[tasks][text]") {
  Trial trial;
  const Tensor words = Tensor::zeros({3, 2}, {.dtype = DType::i64});
  CHECK_THAT(user_error_of([&] {
               trial.model()(words, Tensor::from(std::vector<std::int64_t>{3, 0}, {2}));
             }),
             Contains("text 1 of the batch has no word"));
  CHECK_THAT(user_error_of([&] {
               trial.model()(words, Tensor::from(std::vector<std::int64_t>{3, 4}, {2}));
             }),
             Contains("length 4 of row 1"));
}

TEST_CASE("every text comes once an epoch, full batches where they are asked for", "[tasks][text]") {
  Trial trial;
  const auto source = trial.task().training_source({});
  Index samples = 0;
  datasets::Loader loader(source, {});
  while (const auto batch = loader.next()) samples += batch->samples;
  CHECK(samples == 50);
  const auto full = trial.task().training_source({}, 16);
  CHECK(full->batches(0) == 3);
  CHECK(full->samples_before({.epoch = 0, .number = 2}) == 32);
  Trial dropped({"data.drop_last=true"});
  CHECK(dropped.task().training_source({})->batches(0) == 6);
  Trial few({"data.overfit_batches=2"});
  CHECK(few.task().training_source({})->batches(0) == 2);
  CHECK(few.task().validation_split() == "train");
  CHECK(trial.task().validation_split() == "test");
}

TEST_CASE("an evaluation of texts tells the figures of each class", "[tasks][text]") {
  Trial trial;
  trial.model().eval();
  const auto evaluation = trial.task().evaluation(true);
  std::vector<std::int64_t> texts(3), right(3), taken(3);
  double nll = 0.0;
  const NoGrad no_grad;
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  while (const auto batch = loader.next()) {
    evaluation->add(*batch);
    const Tensor logits = tasks::logits_of(trial.model(), *batch);
    const auto labels = (*batch)["label"].to_vector<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::vector<float> scores = row_of(logits, static_cast<Index>(i));
      const auto best = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
      const auto label = static_cast<std::size_t>(labels[i]);
      ++texts[label];
      ++taken[best];
      right[label] += best == label;
      double sum = 0.0;
      for (const float score : scores) sum += std::exp(static_cast<double>(score));
      nll += std::log(sum) - static_cast<double>(scores[label]);
    }
  }
  const tasks::Metrics metrics = evaluation->metrics();
  CHECK(tasks::metric(metrics, "accuracy") == Approx((right[0] + right[1] + right[2]) / 50.0));
  CHECK(tasks::metric(metrics, "loss") == Approx(nll / 50.0).epsilon(1e-5));
  const tasks::Json details = evaluation->details();
  CHECK(details["classes"] == tasks::Json{"one", "two", "zero"});
  for (std::size_t c = 0; c < 3; ++c) {
    const tasks::Json& own = details["per_class"][c];
    CHECK(own["texts"] == texts[c]);
    CHECK(own["recall"].get<double>() ==
          Approx(static_cast<double>(right[c]) / static_cast<double>(texts[c])));
    if (taken[c] == 0) {
      CHECK(own["precision"].is_null());
    } else {
      CHECK(own["precision"].get<double>() ==
            Approx(static_cast<double>(right[c]) / static_cast<double>(taken[c])));
    }
  }
  REQUIRE(evaluation->artifacts().size() == 1);
  CHECK_THAT(evaluation->artifacts()[0].contents, Catch::StartsWith("true\\predicted,one,two,zero\n"));
}

TEST_CASE("words and classes are saved with the weights of a classifier of texts", "[tasks][text]") {
  Trial trial;
  const tasks::Json description = trial.data()->description();
  const auto recalled =
      std::static_pointer_cast<const tasks::LabelledTextData>(tasks::LabelledTextData::recall(description));
  CHECK(recalled->description() == description);
  CHECK_FALSE(recalled->is_open());
  CHECK(recalled->max_words() == 7);
  CHECK(recalled->encode("w0 nowhere").ids.back() == datasets::Vocabulary::kEnd);
  CHECK(recalled->encode("w0 nowhere").unknown == 1);
  trial.data()->require_like(description, "w.safetensors");
  const auto unlike = [&](const char* key, const char* other) {
    tasks::Json changed = description;
    changed[key][2] = other;
    return user_error_of([&] { trial.data()->require_like(changed, "w.safetensors"); });
  };
  CHECK_THAT(unlike("classes", "three"), Contains("other classes") && Contains("number 2, \"three\" there"));
  CHECK_THAT(unlike("vocabulary", "elsewhere"), Contains("other words") && Contains("\"elsewhere\" there"));
  tasks::Json damaged = description;
  damaged.erase("classes");
  CHECK_THAT(user_error_of([&] { tasks::LabelledTextData::recall(damaged); }), Contains("is damaged"));
  damaged = description;
  for (const std::int64_t words : {std::int64_t{0}, std::int64_t{1} << 40}) {
    damaged["max_words"] = words;
    CHECK_THAT(user_error_of([&] { tasks::LabelledTextData::recall(damaged); }), Contains("is damaged"));
  }
}

TEST_CASE("sections of packages are described without their text", "[tasks][text]") {
  tasks::TextClassificationOptions given;
  given.data.text.set =
      options::Choice<datasets::labelled_corpora>("package_sections", {{"path", "nowhere"}});
  const auto data =
      std::static_pointer_cast<const tasks::LabelledTextData>(tasks::LabelledTextData::describe(given));
  CHECK(data->classes().size() == 39);
  CHECK(data->corpus().vocabulary.size() == 10000);
  CHECK_THROWS_AS(data->split("train"), InternalError);
  given.data.text.common.vocabulary.size = 0;
  CHECK_THAT(user_error_of([&] { tasks::LabelledTextData::describe(given); }), Contains("nowhere"));
}

TEST_CASE("a classifier of texts wants a model of its kind, and texts that count alike", "[tasks][text]") {
  CHECK_THAT(user_error_of([] { Trial trial({R"(model={"name": "mlp"})"}); }), Contains("text_classifier"));
  CHECK_THAT(user_error_of([] { Trial trial({"model.num_classes=2"}); }), Contains("3 classes"));
  CHECK_THAT(user_error_of([] {
               Trial trial({R"(loss={"name": "cross_entropy", "class_weights": [1, 2, 3],)"
                            R"( "batch_weight": "class_weights"})"});
             }),
             Contains("loss.batch_weight"));
}
