// Answers of a question from the scores of its windows (Devlin et al. 2018).
#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "data/text/question_windows.h"
#include "models/span_model.h"
#include "tasks/question_answering/options.h"

namespace tandem::tasks {

// Scores [N,T,2] of a batch's windows (data/text/question_windows.h).
Tensor window_scores(models::SpanModel& model, const datasets::Batch& batch);

// A part of the context, and the sum of the logits of its first and last piece.
struct AnswerSpan {
  Range pieces{};
  double score = 0.0;
};

// The best answers of a question, best first; and the score of no answer, the lowest score of [CLS] over its
// windows.
struct FoundAnswers {
  std::vector<AnswerSpan> best{};
  double none = std::numeric_limits<double>::infinity();

  // Adds those of another window. At most `count` answers remain. Of equal scores the earlier, shorter
  // span comes first.
  void add(const FoundAnswers& other, std::size_t count);
};

// The `count` best spans of at most `max_answer` pieces that begin in the central part of a window, from its
// scores [T,2].
FoundAnswers find_spans(const datasets::QuestionWindow& window, std::span<const float> scores,
                        Index max_answer, std::size_t count);

// The text of an answer, unchanged from the context.
std::string_view text_of_answer(const datasets::EncodedQuestions& questions, std::size_t question,
                                const AnswerSpan& answer);

// Whether the prediction is "no answer". `unanswerable`: questions may be without an answer.
bool has_no_answer(const FoundAnswers& found, bool unanswerable, double null_threshold);

}  // namespace tandem::tasks
