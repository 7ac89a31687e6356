#include "tasks/question_answering/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/units.h"
#include "data/loader.h"
#include "data/text/squad.h"
#include "data/text/tokenizer.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "tasks/input_texts.h"
#include "tasks/question_answering/spans.h"

namespace tandem::tasks {

namespace {

constexpr Index kWindowsAtOnce = 32;

struct AnswerChoice {
  std::optional<std::string> text;  // absent: no answer
  Index start = 0;                  // in characters of the context
  double score = 0.0, probability = 0.0;
};

datasets::Questions asked_questions(const PredictRequest& request) {
  require(
      !request.inputs.empty(), "",
      "predict: inputs are missing: files in SQuAD's format, or contexts with --question: texts, text files, "
      "or - for standard input");
  datasets::Questions all;
  if (request.questions.empty()) {
    std::unordered_set<std::string> ids;
    for (const std::string& input : request.inputs) {
      datasets::Questions own = datasets::read_squad(input, false);
      for (datasets::Question& question : own.questions) {
        require(ids.insert(question.id).second, input,
                "question \"{}\": another input has this id; predict the files one by one",
                printable(question.id));
        question.context += all.contexts.size();
      }
      std::ranges::move(own.contexts, std::back_inserter(all.contexts));
      std::ranges::move(own.questions, std::back_inserter(all.questions));
    }
    return all;
  }
  for (const std::string& text : request.questions) {
    datasets::require_utf8(text, "predict: --question");
    require(text.find_first_not_of(" \t\r\n") != text.npos, "",
            "predict: --question is empty; pass a question");
  }
  all.contexts = texts_of(request.inputs, true);
  for (std::size_t context = 0; context < all.contexts.size(); ++context)
    for (const std::string& text : request.questions)
      all.questions.push_back({.id = std::to_string(all.questions.size()), .text = text, .context = context});
  return all;
}

// By question.
std::vector<FoundAnswers> found_answers(models::SpanModel& model,
                                        const std::shared_ptr<const datasets::QuestionWindows>& windows,
                                        const datasets::WindowMarks& marks, Index max_answer,
                                        std::size_t count, Device device) {
  std::vector<FoundAnswers> found(windows->questions->questions.size());
  datasets::Loader loader(std::make_shared<datasets::QuestionSource>(
      windows, windows->size(), marks,
      datasets::BucketOptions{.sentences = kWindowsAtOnce, .shuffle = false, .grid = 1}, device));
  while (const auto batch = loader.next()) {
    const std::vector<float> scores = window_scores(model, *batch).to_vector<float>();
    const auto numbers = batch->on_host("window").to_vector<std::int64_t>();
    const std::size_t each = scores.size() / numbers.size();
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const auto& window = windows->windows[static_cast<std::size_t>(numbers[n])];
      found[window.question].add(
          find_spans(window, std::span(scores).subspan(n * each, each), max_answer, count), count);
    }
  }
  return found;
}

Index characters_before(std::string_view context, std::size_t byte) {
  return std::ranges::count_if(context.substr(0, byte),
                               [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// Distinct texts, best first; probabilities are a softmax of the scores. "No answer" is one of the
// choices if it is possible, and the first one if it is the prediction.
std::vector<AnswerChoice> choices_of(const datasets::EncodedQuestions& questions, std::size_t question,
                                     const FoundAnswers& found, bool unanswerable, double null_threshold) {
  const std::string& context = questions.contexts[questions.questions[question].context];
  std::vector<AnswerChoice> all;
  std::unordered_set<std::string_view> texts;
  for (const AnswerSpan& span : found.best) {
    const std::string_view text = text_of_answer(questions, question, span);
    if (!texts.insert(text).second) continue;
    const auto byte = static_cast<std::size_t>(text.data() - context.data());
    all.push_back({std::string(text), characters_before(context, byte), span.score});
  }
  const bool none = has_no_answer(found, unanswerable, null_threshold);
  if (unanswerable || none) {
    auto at = all.begin();
    if (!none)
      at = std::find_if(all.begin() + 1, all.end(), [&](const auto& c) { return c.score < found.none; });
    all.insert(at, AnswerChoice{.text = {}, .score = found.none});
  }
  const double most = std::ranges::max(all, {}, &AnswerChoice::score).score;
  double sum = 0.0;
  for (AnswerChoice& choice : all) sum += choice.probability = std::exp(choice.score - most);
  for (AnswerChoice& choice : all) choice.probability /= sum;
  return all;
}

Json text_or_null(const AnswerChoice& choice) { return choice.text ? Json(*choice.text) : Json(); }

void print_answers(const datasets::Question& question, std::span<const AnswerChoice> answers,
                   const PredictRequest& request) {
  if (request.json) {
    Json line{{"id", question.id}, {"question", question.text}, {"answer", text_or_null(answers.front())}};
    for (const AnswerChoice& one : answers)
      line["predictions"].push_back(
          {{"text", text_or_null(one)},
           {"start", one.text ? Json(one.start) : Json()},
           {request.logits ? "score" : "probability", request.logits ? one.score : one.probability}});
    return output::print("{}\n", files::json_text(line));
  }
  std::string text = question.text;
  for (const AnswerChoice& one : answers)
    text +=
        fmt::format("  {} {}{}", one.text.value_or("(no answer)"),
                    request.logits ? decimal_text(one.score, 4) : decimal_text(100.0 * one.probability, 1),
                    request.logits ? "" : " %");
  output::print("{}\n", text);
}

}  // namespace

void answer_questions(models::SpanModel& model, const QuestionData& data,
                      const QuestionAnsweringOptions::Evaluation& options,
                      const datasets::QuestionWindowOptions& windows, const PredictRequest& request,
                      Device device) {
  const NoGrad no_grad;
  const auto questions = std::make_shared<const datasets::EncodedQuestions>(
      datasets::encode_questions(asked_questions(request), data.codec()));
  const auto top = static_cast<std::size_t>(request.top.value_or(1));
  const std::size_t count = std::max(top, static_cast<std::size_t>(options.n_best));
  const std::vector<FoundAnswers> found = found_answers(
      model, std::make_shared<const datasets::QuestionWindows>(datasets::windows_of(questions, windows)),
      data.marks(), options.max_answer, count, device);
  const double threshold = request.threshold.value_or(options.null_threshold);
  Json answers = Json::object();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const datasets::Question& question = questions->questions[i];
    std::vector<AnswerChoice> all = choices_of(*questions, i, found[i], data.has_unanswerable(), threshold);
    if (request.out.empty()) {
      print_answers(question, std::span(all).first(std::min(top, all.size())), request);
    } else {
      answers[question.id] = all.front().text.value_or("");
    }
  }
  if (request.out.empty()) return;
  files::write_atomically(request.out, files::json_text(answers, 1) + "\n");
  output::print("{}: {} answers\n", request.out, answers.size());
}

}  // namespace tandem::tasks
