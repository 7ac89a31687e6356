// Metrics of question answering: exact match, F1, loss.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "metrics/perplexity.h"
#include "tasks/question_answering/data.h"
#include "tasks/question_answering/spans.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Mean cross entropy of the first and of the last piece of the answers; with `sum` the sum over windows.
Tensor span_loss(const Tensor& scores, const datasets::Batch& batch, bool sum = false);

class QuestionEvaluation final : public Evaluation {
 public:
  using Parts = std::vector<std::shared_ptr<const datasets::QuestionWindows>>;  // by number

  // Keeps references. `keeps`: artifacts() has predictions.json.
  QuestionEvaluation(models::SpanModel& model, const Parts& parts,
                     const QuestionAnsweringOptions::Evaluation& options, bool unanswerable, bool keeps)
      : model_(model), parts_(parts), options_(options), unanswerable_(unanswerable), keeps_(keeps) {}

  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  // Over the questions of the accumulated windows.
  Metrics metrics() const override;
  // predictions.json: the answers by the ids of their questions, "" for none.
  std::vector<Artifact> artifacts() const override;

 private:
  // The best answer in a window; no pieces: none begins there.
  struct OfWindow {
    std::int64_t window = 0;
    Range pieces{};
    double score = 0.0, none = 0.0;
  };

  const datasets::QuestionWindows& part_of_window(std::int64_t number) const;
  // Calls `use(question, answer)` for each question, with "" for no answer.
  template <class Use>
  void each_answer(const Use& use) const;

  models::SpanModel& model_;
  const Parts& parts_;
  const QuestionAnsweringOptions::Evaluation& options_;
  bool unanswerable_, keeps_;
  metrics::Perplexity loss_;  // over windows
  std::map<std::pair<const datasets::EncodedQuestions*, std::size_t>, FoundAnswers> found_;
};

}  // namespace tandem::tasks
