// The figures of a language model: perplexity, the mean loss in nats, the share of words that it ranks first.
#pragma once

#include "models/language_model.h"
#include "tasks/sequence/perplexity.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Batches are the consecutive pieces of streams; their state is carried from one to the next. Every target
// counts once, the ends of lines and unknown words included.
class LanguageEvaluation final : public Evaluation {
 public:
  explicit LanguageEvaluation(models::LanguageModel& model) : model_(model) {}

  void add(const datasets::Batch& batch) override;
  Metrics metrics() const override;

 private:
  models::LanguageModel& model_;
  Carry carry_;
  Perplexity perplexity_;
  std::int64_t right_ = 0;
};

}  // namespace tandem::tasks
