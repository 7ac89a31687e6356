// The figures of a language model: perplexity, the mean loss in nats, the share of words that it ranks first;
// of a model of characters, bits per character besides.
#pragma once

#include "metrics/perplexity.h"
#include "models/causal_model.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Batches are the consecutive pieces of streams; the model's state is carried from one to the next. Every
// target counts once, the ends of lines and unknown words included. Where the words are characters the end of
// a line is one of them.
class LanguageEvaluation final : public Evaluation {
 public:
  LanguageEvaluation(models::CausalModel& model, bool of_characters)
      : model_(model), of_characters_(of_characters) {}

  // Σ -ln p of the targets, how many they are, and how many are ranked first.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  // The states of the streams.
  bool carries() const override { return model_.carries_state(); }
  void skip(const datasets::Batch& batch) override { hidden(batch); }
  Metrics metrics() const override;

 private:
  struct Sums {
    double nll = 0.0;
    std::int64_t targets = 0, right = 0;
  };
  // CausalModel::Advanced::hidden; the state is carried on.
  Tensor hidden(const datasets::Batch& batch);

  models::CausalModel& model_;
  const bool of_characters_;
  models::State state_;
  metrics::Perplexity perplexity_;
  std::int64_t right_ = 0;
};

}  // namespace tandem::tasks
