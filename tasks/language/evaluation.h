// Metrics of a language model: perplexity, mean loss in nats, accuracy of the top word; for character models
// also bits per character.
#pragma once

#include "metrics/perplexity.h"
#include "models/causal_model.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Words of a batch of streams, without the padding of its last rows: i64 [words of a stream, N].
struct Chunk {
  Tensor token, target;
};

// Batch::samples counts the targets; the last row may not have one for every stream
// (data/text/stream_source.h).
Chunk chunk_of(const datasets::Batch& batch);

// Batches are consecutive chunks of streams; the model's state is carried between them. Every target counts
// once, including line ends and unknown words. In character models the line end is one character.
class LanguageEvaluation final : public Evaluation {
 public:
  LanguageEvaluation(models::CausalModel& model, bool of_characters)
      : model_(model), of_characters_(of_characters) {}

  // Σ -ln p of the targets, their number, and the number ranked first.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  // Carries the states of the streams.
  bool carries() const override { return model_.carries_state(); }
  void skip(const datasets::Batch& batch) override { hidden(batch); }
  Metrics metrics() const override;

 private:
  struct Sums {
    double nll = 0.0;
    std::int64_t targets = 0, right = 0;
  };
  // CausalModel::Advanced::hidden; advances the carried state.
  Tensor hidden(const datasets::Batch& batch);

  models::CausalModel& model_;
  const bool of_characters_;
  models::State state_;
  metrics::Perplexity perplexity_;
  std::int64_t right_ = 0;
};

}  // namespace tandem::tasks
