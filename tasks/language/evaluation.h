// Metrics of a language model: perplexity, mean loss in nats, accuracy of the top word; bits per character of
// character models, and bits per byte of UTF-8 where ids have bytes.
#pragma once

#include <vector>

#include "metrics/perplexity.h"
#include "models/causal_model.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Words of a batch, i64 [steps, N].
struct Chunk {
  Tensor token, target;
};

// Those of streams, for a model that carries its state, are without the padding of the last rows.
// Batch::samples counts the targets; the last row may not have one for every stream
// (data/text/stream_source.h).
Chunk chunk_of(const datasets::Batch& batch, const models::CausalModel& model);

// Batches are consecutive chunks of streams, between which the model's state is carried, or windows. Every
// target counts once, including line ends and unknown words.
class LanguageEvaluation final : public Evaluation {
 public:
  // `bytes`: of each id, or empty.
  explicit LanguageEvaluation(models::CausalModel& model, std::vector<Index> bytes = {},
                              bool characters = false)
      : model_(model), bytes_of_(std::move(bytes)), characters_(characters) {}

  // Σ -ln p of the targets, their number, the number ranked first, and their bytes.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  // Carries the states of the streams.
  bool carries() const override { return model_.carries_state(); }
  void skip(const datasets::Batch& batch) override { hidden(batch); }
  Metrics metrics() const override;

 private:
  struct Sums {
    double nll = 0.0;
    std::int64_t targets = 0, right = 0, bytes = 0;
  };
  // CausalModel::Advanced::hidden; advances the carried state.
  Tensor hidden(const datasets::Batch& batch);

  models::CausalModel& model_;
  const std::vector<Index> bytes_of_;
  const bool characters_;
  models::State state_;
  metrics::Perplexity perplexity_;
  std::int64_t right_ = 0, bytes_ = 0;
};

}  // namespace tandem::tasks
