// Answers to questions.
#pragma once

#include "models/span_model.h"
#include "tasks/question_answering/data.h"

namespace tandem::tasks {

// Prints the best answer of each question, or `request.top` of them, with probabilities (with `logits`:
// scores), or with `json` as an object with "id", "question", "answer" (null for none) and "predictions",
// whose "start" counts characters of the context. The questions are `request.questions` about each input, a
// text or a file with one, or those of inputs that are files in the format of SQuAD. With `out` the answers
// are written there instead, by id, as the official evaluation reads them. `windows` are the model's; the
// model must be on `device`, in evaluation mode. Throws UserError for unreadable files.
void answer_questions(models::SpanModel& model, const QuestionData& data,
                      const QuestionAnsweringOptions::Evaluation& options,
                      const datasets::QuestionWindowOptions& windows, const PredictRequest& request,
                      Device device);

}  // namespace tandem::tasks
