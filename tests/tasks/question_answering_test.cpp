// Question answering: loss and metrics by definition, the choice of answers, the official measures, errors.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "data/loader.h"
#include "models/bert.h"
#include "tasks/question_answering/answer_match.h"
#include "tasks/question_answering/task.h"
#include "tests/support/paths.h"
#include "tests/tasks/trial.h"

using namespace tandem;
using Catch::Contains;
using nlohmann::json;
using testing::user_error_of;

namespace {

// Contexts of words "a0 b1 …" that do not fit the model; every third question has no answer if `impossible`.
json squad_file(bool impossible, int contexts = 6) {
  json paragraphs = json::array();
  for (int c = 0; c < contexts; ++c) {
    std::string context = "Über: ";
    json qas = json::array();
    for (int w = 0; w < 14; ++w) {
      const std::string word = fmt::format("w{}{}", c, w);
      const auto start = static_cast<int>(context.size()) - 1;  // Ü has two bytes
      if (w % 5 == 2) {
        const bool none = impossible && w == 7;
        qas.push_back({{"id", word}, {"question", "Where is " + word + "?"}, {"is_impossible", none}});
        qas.back()["answers"] = none ? json::array() : json{{{"text", word}, {"answer_start", start}}};
      }
      context += word + " ";
    }
    paragraphs.push_back({{"context", context}, {"qas", qas}});
  }
  return {{"data", {{{"title", "t"}, {"paragraphs", paragraphs}}}}};
}

class QuestionTrial : public testing::TaskTrial {
 public:
  explicit QuestionTrial(const std::vector<std::string>& overrides = {}, bool impossible = true,
                         const json& file = {}) {
    const std::string path = write("squad.json", (file.is_null() ? squad_file(impossible) : file).dump());
    make({{"task", "question_answering"},
          {"model",
           {{"name", "bert"},
            {"num_layers", 1},
            {"width", 8},
            {"heads", 2},
            {"context", 24},
            {"dropout", 0.0},
            {"attention_dropout", 0.0}}},
          {"data",
           {{"name", "squad"},
            {"train", path},
            {"test", path},
            {"codec", {{"name", "wordpiece"}, {"size", 80}, {"min_count", 1}}},
            {"max_question", 8},
            {"stride", 5},
            {"batch_size", 8}}},
          {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}},
         overrides);
  }
  const tasks::QuestionData& questions() const { return static_cast<const tasks::QuestionData&>(*data()); }
};

double log_sum_exp(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += std::exp(value);
  return std::log(sum);
}

}  // namespace

TEST_CASE("loss and metrics of question answering by their definition", "[tasks][answers]") {
  for (const bool impossible : {false, true}) {
    QuestionTrial trial({"eval.max_answer=3", "eval.null_threshold=0.01"}, impossible);
    auto& model = trial.model_as<models::Bert>();
    model.eval();
    const NoGrad no_grad;
    const datasets::EncodedQuestions& all = trial.questions().corpus().test;
    const auto windows = datasets::windows_of(std::make_shared<const datasets::EncodedQuestions>(all),
                                              {.longest = 24, .max_question = 8, .stride = 5});
    REQUIRE(windows.size() > 2 * all.size());
    // Of each question: the best span of all windows, and the lowest score of none.
    std::vector<double> best(all.questions.size(), -1e9), none(all.questions.size(), 1e9);
    std::vector<std::string> answers(all.questions.size());
    double nll = 0.0;
    for (const datasets::QuestionWindow& window : windows.windows) {
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(window.length())), segments(tokens.size());
      datasets::write_window(all, window, trial.questions().marks(), tokens.data(), segments.data());
      const Shape shape{1, window.length()};
      const auto scores = model
                              .span_scores(model.hidden({.tokens = Tensor::from(tokens, shape),
                                                         .segments = Tensor::from(segments, shape)}))
                              .to_vector<double>();
      std::array<std::vector<double>, 2> ends;
      for (std::size_t i = 0; i < scores.size(); ++i) ends[i % 2].push_back(scores[i]);
      nll += 0.5 * (log_sum_exp(ends[0]) - ends[0][static_cast<std::size_t>(window.start)] +
                    log_sum_exp(ends[1]) - ends[1][static_cast<std::size_t>(window.end)]);
      const std::size_t q = window.question;
      none[q] = std::min(none[q], scores[0] + scores[1]);
      const datasets::Question& question = all.questions[q];
      const auto& places = all.context_pieces[question.context].places;
      for (std::size_t a = window.central.first; a < window.central.last; ++a)
        for (std::size_t b = a; b < std::min(a + 3, window.pieces.last); ++b) {
          const auto at = [&](std::size_t piece) {
            return static_cast<std::size_t>(window.first) + piece - window.pieces.first;
          };
          const double score = ends[0][at(a)] + ends[1][at(b)];
          if (score <= best[q]) continue;
          best[q] = score;
          answers[q] =
              all.contexts[question.context].substr(places[a].first, places[b].last - places[a].first);
        }
    }
    double f1 = 0.0, exact = 0.0;
    for (std::size_t q = 0; q < answers.size(); ++q) {
      if (impossible && none[q] - best[q] > 0.01) answers[q].clear();
      const tasks::AnswerMatch match = tasks::match_answer(answers[q], all.questions[q].answers);
      f1 += match.f1;
      exact += match.exact;
    }
    datasets::Loader loader(trial.task().evaluation_source("test", {}));
    const auto evaluation = trial.task().evaluation(true);
    while (const auto batch = loader.next()) evaluation->add(*batch);
    const auto count = static_cast<double>(answers.size());
    const tasks::Metrics metrics = evaluation->metrics();
    CHECK(tasks::metric(metrics, "f1") == Approx(f1 / count));
    CHECK(tasks::metric(metrics, "exact_match") == Approx(exact / count));
    CHECK(tasks::metric(metrics, "loss") == Approx(nll / static_cast<double>(windows.size())).epsilon(1e-5));
    const auto artifacts = evaluation->artifacts();
    REQUIRE(artifacts.size() == 1);
    const json predictions = json::parse(artifacts[0].contents);
    CHECK(predictions.size() == answers.size());
    for (std::size_t q = 0; q < answers.size(); ++q) CHECK(predictions.at(all.questions[q].id) == answers[q]);
  }
}

TEST_CASE("padding changes no loss of question answering", "[tasks][answers]") {
  QuestionTrial trial;
  const NoGrad no_grad;
  trial.task().model().eval();
  const auto loss_of = [&](const char* batch_size) {
    QuestionTrial other({std::string("data.eval_batch_size=") + batch_size});
    datasets::Loader loader(other.task().evaluation_source("test", {}));
    double sum = 0.0;
    while (const auto batch = loader.next())
      sum += trial.task().loss(*batch).item() * static_cast<double>(batch->samples);
    return sum;
  };
  CHECK(loss_of("1") == Approx(loss_of("64")).epsilon(1e-6));
}

TEST_CASE("exact match and F1 are those of the official evaluation", "[tasks][answers]") {
  const json golden = json::parse(std::ifstream(test::source_path("tests/golden/answers.json")));
  for (const json& one : golden.at("match")) {
    CAPTURE(one.dump());
    const auto accepted = one.at("accepted").get<std::vector<std::string>>();
    const tasks::AnswerMatch match = tasks::match_answer(one.at("answer").get<std::string>(), accepted);
    CHECK(match.exact == (one.at("exact") == 1));
    CHECK(match.f1 == Approx(one.at("f1").get<double>()).margin(1e-6));
  }
  CHECK(tasks::normalised_answer("The  Eiffel-Tower, a tower.") == "eiffeltower tower");
}

TEST_CASE("the best answers of a window are those of all pairs of pieces", "[tasks][answers]") {
  const datasets::QuestionWindow window{.pieces = {10, 16}, .first = 3, .central = {11, 15}};
  std::vector<float> scores(2 * 10);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>((i * 7) % 11);
  const tasks::FoundAnswers found = tasks::find_spans(window, scores, 2, 3);
  // First pieces 11 to 14 are at positions 4 to 7.
  std::vector<tasks::AnswerSpan> all;
  for (std::size_t a = 4; a < 8; ++a)
    for (std::size_t b = a; b < a + 2; ++b)
      all.push_back(
          {{a + 7, b + 8}, static_cast<double>(scores[2 * a]) + static_cast<double>(scores[2 * b + 1])});
  std::ranges::stable_sort(all, std::greater(), &tasks::AnswerSpan::score);
  REQUIRE(found.best.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(found.best[i].pieces == all[i].pieces);
    CHECK(found.best[i].score == all[i].score);
  }
  CHECK(found.none == 0.0 + 7.0);
  tasks::FoundAnswers sum;
  sum.add({.best = {{{0, 1}, 1.0}}, .none = 3.0}, 2);
  sum.add({.best = {{{5, 6}, 4.0}, {{2, 3}, 4.0}}, .none = -1.0}, 2);
  REQUIRE(sum.best.size() == 2);
  CHECK(sum.best[0].pieces == Range{2, 3});  // of equal scores the earlier
  CHECK(sum.none == -1.0);
  CHECK(tasks::has_no_answer({.best = {{{0, 1}, 1.0}}, .none = 2.5}, true, 1.0));
  CHECK_FALSE(tasks::has_no_answer({.best = {{{0, 1}, 1.0}}, .none = 2.5}, true, 2.0));
  CHECK_FALSE(tasks::has_no_answer({.best = {{{0, 1}, 1.0}}, .none = 2.5}, false, 1.0));
}

TEST_CASE("the codec of question answering is saved with its weights", "[tasks][answers]") {
  QuestionTrial trial;
  const tasks::Json description = trial.data()->description();
  CHECK(description.at("unanswerable") == true);
  CHECK(QuestionTrial({}, false).data()->description().at("unanswerable") == false);
  CHECK(tasks::QuestionData::recall(description)->description() == description);
  trial.data()->require_like(description, "w.safetensors");
  tasks::Json damaged = description;
  damaged.erase("unanswerable");
  CHECK_THAT(user_error_of([&] { tasks::QuestionData::recall(damaged); }), Contains("is damaged"));
}

TEST_CASE("options of question answering that do not fit", "[tasks][answers]") {
  CHECK_THAT(user_error_of([] { QuestionTrial trial({R"(data.codec={"name": "words"})"}); }),
             Contains("gives no offsets of its pieces in a text; use wordpiece"));
  CHECK_THAT(user_error_of([] { QuestionTrial trial({"model.context=11"}); }),
             Contains("model.context") && Contains("must be above 11"));
  CHECK_THAT(user_error_of([] { QuestionTrial trial({R"(model={"name": "mlp"})"}); }),
             Contains("is no question-answering model; use bert"));
  CHECK_THAT(user_error_of([] { QuestionTrial trial({"data.stride=0"}); }), Contains("data.stride"));
}
