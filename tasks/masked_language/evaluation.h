// Metrics of a masked language model: loss, perplexity and accuracy of masked words; of pairs, the accuracy
// of the next sentence.
#pragma once

#include <functional>

#include "metrics/perplexity.h"
#include "models/masked_model.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Results of a batch (data/text/masked_source.h).
struct MaskedScores {
  Tensor words;   // logits [N·most,V] of the masked positions
  Tensor labels;  // i64 [N·most], kNoTarget: none
  Tensor next;    // logits [N,2]; absent without pairs
};
MaskedScores masked_scores(models::MaskedModel& model, const datasets::Batch& batch);

class MaskedEvaluation final : public Evaluation {
 public:
  explicit MaskedEvaluation(models::MaskedModel& model) : model_(model) {}

  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  // "loss" is the sum of the two mean losses.
  Metrics metrics() const override;

 private:
  // Sums over masked words, and over pairs.
  struct Sums {
    double nll = 0.0, next_nll = 0.0;
    std::int64_t words = 0, right = 0, pairs = 0, next_right = 0;
  };

  models::MaskedModel& model_;
  metrics::Perplexity words_, pairs_;
  std::int64_t right_ = 0, next_right_ = 0;
};

}  // namespace tandem::tasks
