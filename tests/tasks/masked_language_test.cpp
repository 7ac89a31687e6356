// Masked language models: loss and metrics by definition, micro-batches, predictions, errors.
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "data/loader.h"
#include "models/bert.h"
#include "tasks/masked_language/evaluation.h"
#include "tasks/masked_language/task.h"
#include "tests/support/tensors.h"
#include "tests/tasks/trial.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

class Trial : public testing::TaskTrial {
 public:
  explicit Trial(const std::vector<std::string>& overrides = {}) {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      for (int w = 0; w <= 2 + i % 9; ++w) lines += fmt::format("w{} ", (i * 7 + w * w) % 13);
      lines += "\n";
    }
    const std::string path = write("texts.txt", lines);
    make({{"task", "masked_language"},
          {"model",
           {{"name", "bert"},
            {"num_layers", 1},
            {"width", 8},
            {"heads", 2},
            {"context", 16},
            {"dropout", 0.0},
            {"attention_dropout", 0.0}}},
          {"data",
           {{"name", "text"},
            {"train", path},
            {"test", path},
            {"validation_fraction", 0.0},
            {"codec", {{"name", "wordpiece"}, {"size", 60}, {"min_count", 1}}},
            {"batch_size", 8}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}},
         overrides);
  }
  models::Bert& model() { return model_as<models::Bert>(); }
};

// −ln softmax of `label`, in double precision.
double nll_of(const std::vector<float>& row, std::int64_t label) {
  double sum = 0.0;
  for (const float value : row) sum += std::exp(static_cast<double>(value));
  return std::log(sum) - static_cast<double>(row[static_cast<std::size_t>(label)]);
}

}  // namespace

TEST_CASE("loss and metrics of a masked language model by their definition", "[tasks][masked]") {
  Trial trial({"model.next_sentence=true"});
  trial.model().eval();
  const NoGrad no_grad;
  datasets::Loader loader(trial.task().evaluation_source("test", {}));
  const auto evaluation = trial.task().evaluation(false);
  double nll = 0.0, next_nll = 0.0;
  int words = 0, right = 0, pairs = 0, next_right = 0;
  while (const auto batch = loader.next()) {
    evaluation->add(*batch);
    double batch_nll = 0.0, batch_next = 0.0;
    int batch_words = 0;
    const Tensor hidden = trial.model().hidden(
        {.tokens = (*batch)["tokens"], .segments = (*batch)["segments"], .lengths = (*batch)["lengths"]});
    const Index rows = hidden.size(0), steps = hidden.size(1), width = hidden.size(2);
    const auto positions = (*batch)["masked_positions"].to_vector<std::int64_t>(),
               labels = (*batch)["masked_labels"].to_vector<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0) continue;
      const auto row = trial.model()
                           .word_scores(hidden.viewed({rows * steps, width}).rows(positions[i], 1))
                           .to_vector<float>();
      batch_nll += nll_of(row, labels[i]);
      ++batch_words;
      right += std::ranges::max_element(row) - row.begin() == labels[i];
    }
    const Tensor next = trial.model().next_scores(hidden);
    const auto truth = (*batch)["next"].to_vector<std::int64_t>();
    for (Index n = 0; n < rows; ++n) {
      const auto row = next.rows(n, 1).to_vector<float>();
      batch_next += nll_of(row, truth[static_cast<std::size_t>(n)]);
      next_right += (row[1] > row[0]) == (truth[static_cast<std::size_t>(n)] == 1);
    }
    CHECK(batch->weight == batch_words);
    CHECK(trial.task().loss(*batch).item() ==
          Approx(batch_nll / batch_words + batch_next / static_cast<double>(rows)).epsilon(1e-5));
    nll += batch_nll;
    next_nll += batch_next;
    words += batch_words;
    pairs += static_cast<int>(rows);
  }
  const tasks::Metrics metrics = evaluation->metrics();
  CHECK(tasks::metric(metrics, "loss") == Approx(nll / words + next_nll / pairs).epsilon(1e-5));
  CHECK(tasks::metric(metrics, "perplexity") == Approx(std::exp(nll / words)).epsilon(1e-5));
  CHECK(tasks::metric(metrics, "accuracy") == Approx(static_cast<double>(right) / words));
  CHECK(tasks::metric(metrics, "next_accuracy") == Approx(static_cast<double>(next_right) / pairs));
  // At the start all words are about as likely.
  CHECK(nll / words == Approx(std::log(static_cast<double>(trial.model().options().vocabulary))).margin(0.1));
}

TEST_CASE("a batch without masked words has loss 0", "[tasks][masked]") {
  Trial trial;
  datasets::Batch batch = trial.task().synthetic_batch(3, 1, {});
  batch.set("masked_labels", test::tensor_of(std::vector<double>(60, -1.0), {3, 20}, DType::i64));
  CHECK(trial.task().loss(batch).item() == 0.0);
}

TEST_CASE("the codec of a masked language model is saved with its weights", "[tasks][masked]") {
  Trial trial;
  const tasks::Json description = trial.data()->description();
  const auto recalled = tasks::MaskedLanguageData::recall(description);
  CHECK(recalled->description() == description);
  trial.data()->require_like(description, "w.safetensors");
  tasks::Json damaged = description;
  damaged.erase("codec");
  CHECK_THAT(user_error_of([&] { tasks::MaskedLanguageData::recall(damaged); }), Contains("is damaged"));
}

TEST_CASE("options of a masked language model that do not fit", "[tasks][masked]") {
  CHECK_THAT(user_error_of([] { Trial trial({"checkpoint.best=next_accuracy"}); }),
             Contains("model.next_sentence=true"));
  CHECK_THAT(user_error_of([] { Trial trial({R"(data.codec={"name": "words"})"}); }),
             Contains("has no [MASK] piece; use wordpiece"));
  CHECK_THAT(user_error_of([] { Trial trial({"model.context=3"}); }), Contains("model.context"));
  CHECK_THAT(user_error_of([] { Trial trial({R"(model={"name": "mlp"})"}); }),
             Contains("is no masked language model; use bert"));
  CHECK_THAT(user_error_of([] { Trial trial({"model.heads=3"}); }),
             Contains("3 heads do not divide the width of 8"));
}
