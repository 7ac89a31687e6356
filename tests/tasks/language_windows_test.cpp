// The language task with a model that carries no state: windows, their loss, metrics and options.
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/ops/shape.h"
#include "core/random.h"
#include "data/loader.h"
#include "models/gpt.h"
#include "tasks/language/evaluation.h"
#include "tasks/language/task.h"
#include "tests/support/tensors.h"
#include "tests/tasks/trial.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

constexpr Index kContext = 8, kWindows = 4;

// Characters of one, two and three bytes.
std::string text_of_lines(int lines, std::uint64_t seed) {
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data});
  static constexpr const char* kCharacters[] = {"a", "b", "ä", "—", "c"};
  std::string text;
  for (int i = 0; i < lines; ++i) {
    for (int j = 0; j < 12; ++j) text += kCharacters[random.below(5)];
    text += '\n';
  }
  return text;
}

class WindowTrial : public testing::TaskTrial {
 public:
  explicit WindowTrial(const std::vector<std::string>& overrides = {}) {
    make({{"task", "language"},
          {"model", {{"name", "gpt"}, {"num_layers", 1}, {"width", 16}, {"heads", 2}, {"context", kContext}}},
          {"data",
           {{"name", "text"},
            {"tokenizer", "characters"},
            {"train", write("text.txt", text_of_lines(60, 1))},
            {"test", write("test.txt", test_)},
            {"batch_size", kWindows},
            {"eval_batch_size", 3}}},
          {"optimizer", "adam"}},
         overrides);
  }
  const std::string& test() const { return test_; }

 private:
  std::string test_ = text_of_lines(9, 2);
};

}  // namespace

TEST_CASE("parts of a batch of windows have the loss of the whole", "[tasks][language]") {
  WindowTrial trial;
  datasets::Loader loader(trial.task().training_source({}), {});
  const datasets::Batch batch = loader.next().value();
  CHECK(batch["token"].shape() == Shape{kContext, kWindows});
  const auto part = [&](Index first) {
    const auto half = [&](const char* name) { return slice(batch[name], 1, first, first + 2); };
    return trial.task()
        .loss(datasets::Batch({{"token", half("token")}, {"target", half("target")}}, 2 * kContext))
        .item();
  };
  CHECK((part(0) + part(2)) / 2.0 == Approx(trial.task().loss(batch).item()).epsilon(1e-6));
}

TEST_CASE("an evaluation of windows counts every target and its bytes once", "[tasks][language]") {
  WindowTrial trial;
  trial.task().model().eval();
  const auto evaluation = trial.task().evaluation(false);
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  while (const auto batch = loader.next()) evaluation->add(*batch);
  const tasks::Metrics metrics = evaluation->metrics();
  constexpr double kCharacters = 9 * 13;
  CHECK(tasks::metric(metrics, "bits_per_byte") * static_cast<double>(trial.test().size()) ==
        Approx(tasks::metric(metrics, "bits_per_character") * kCharacters));
  CHECK(tasks::metric(metrics, "loss") ==
        Approx(std::log(2.0) * tasks::metric(metrics, "bits_per_character")));
}

TEST_CASE("bits per byte of subwords divide by the bytes of the text", "[tasks][language]") {
  WindowTrial trial({R"(data.codec={"name": "byte_bpe", "size": 270})"});
  trial.task().model().eval();
  const auto evaluation = trial.task().evaluation(false);
  datasets::Loader loader(trial.task().evaluation_source("test", {}), {});
  double targets = 0.0;
  while (const auto batch = loader.next()) {
    targets += static_cast<double>(batch->samples);
    evaluation->add(*batch);
  }
  const tasks::Metrics metrics = evaluation->metrics();
  CHECK(targets < static_cast<double>(trial.test().size()));
  CHECK(tasks::metric(metrics, "bits_per_byte") * static_cast<double>(trial.test().size()) ==
        Approx(tasks::metric(metrics, "loss") / std::log(2.0) * targets));
}

TEST_CASE("windows of training are in order without data.shuffle", "[tasks][language]") {
  WindowTrial trial({"data.shuffle=false", R"(data.codec={"name": "byte_bpe", "size": 270})"});
  const auto& data = dynamic_cast<const tasks::LanguageData&>(*trial.data());
  datasets::Loader loader(trial.task().training_source({}), {});
  const datasets::Batch batch = loader.next().value();
  const auto token = batch["token"].to_vector<std::int64_t>();
  const auto target = batch["target"].to_vector<std::int64_t>();
  CHECK(token[0] == data.codec().begin());
  CHECK(target[0] == data.corpus().train.ids[0]);
  CHECK(target[1] == data.corpus().train.ids[kContext]);
}

TEST_CASE("options that windows do not fit are refused", "[tasks][language]") {
  CHECK_THAT(user_error_of([] { WindowTrial({"data.steps=9"}); }),
             Contains("data.steps") && Contains("is 9, more than the context of the model, 8"));
  CHECK_THAT(user_error_of([] { WindowTrial({"data.random_steps=true"}); }),
             Contains("data.random_steps") && Contains("carries a state"));
  // Rotary positions have no end.
  WindowTrial({"data.steps=9", "model.positions=rotary"});
  WindowTrial short_text({"data.batch_size=500"});
  CHECK_THAT(user_error_of([&] { short_text.task().training_source({}); }),
             Contains("too short for a batch of 500 windows of 8 words"));
}
