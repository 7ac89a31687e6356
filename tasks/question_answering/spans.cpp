#include "tasks/question_answering/spans.h"

#include <algorithm>
#include <tuple>

#include "core/shapes_backend.h"

namespace tandem::tasks {

namespace {

bool is_better(const AnswerSpan& a, const AnswerSpan& b) {
  return std::tuple(-a.score, a.pieces.first, a.pieces.last) <
         std::tuple(-b.score, b.pieces.first, b.pieces.last);
}

void keep_best(std::vector<AnswerSpan>& spans, std::size_t count) {
  const auto end = spans.begin() + static_cast<std::ptrdiff_t>(std::min(count, spans.size()));
  std::partial_sort(spans.begin(), end, spans.end(), is_better);
  spans.erase(end, spans.end());
}

}  // namespace

Tensor window_scores(models::SpanModel& model, const datasets::Batch& batch) {
  const Tensor& tokens = batch["tokens"];
  return model.span_scores(
      model.hidden({.tokens = tokens,
                    .segments = batch["segments"],
                    .lengths = tokens.device() == kShapes ? Tensor() : batch.on_host("lengths")}));
}

void FoundAnswers::add(const FoundAnswers& other, std::size_t count) {
  best.insert(best.end(), other.best.begin(), other.best.end());
  keep_best(best, count);
  none = std::min(none, other.none);
}

FoundAnswers find_spans(const datasets::QuestionWindow& window, std::span<const float> scores,
                        Index max_answer, std::size_t count) {
  const auto logit = [&](std::size_t piece, std::size_t which) {
    const auto position = static_cast<std::size_t>(window.first) + piece - window.pieces.first;
    return static_cast<double>(scores[2 * position + which]);
  };
  FoundAnswers found{.best = {}, .none = static_cast<double>(scores[0]) + static_cast<double>(scores[1])};
  const std::size_t enough = std::max<std::size_t>(4 * count, 1024);
  for (std::size_t first = window.central.first; first < window.central.last; ++first) {
    const std::size_t end = std::min(window.pieces.last, first + static_cast<std::size_t>(max_answer));
    for (std::size_t last = first; last < end; ++last)
      found.best.push_back({{first, last + 1}, logit(first, 0) + logit(last, 1)});
    if (found.best.size() >= enough) keep_best(found.best, count);
  }
  keep_best(found.best, count);
  return found;
}

std::string_view text_of_answer(const datasets::EncodedQuestions& questions, std::size_t question,
                                const AnswerSpan& answer) {
  const std::size_t context = questions.questions[question].context;
  const auto& places = questions.context_pieces[context].places;
  const std::size_t first = places[answer.pieces.first].first, last = places[answer.pieces.last - 1].last;
  return std::string_view(questions.contexts[context]).substr(first, last - first);
}

bool has_no_answer(const FoundAnswers& found, bool unanswerable, double null_threshold) {
  return found.best.empty() || (unanswerable && found.none - found.best.front().score > null_threshold);
}

}  // namespace tandem::tasks
