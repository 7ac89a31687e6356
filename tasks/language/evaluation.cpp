#include "tasks/language/evaluation.h"

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "data/text/vocabulary.h"
#include "tasks/language/options.h"

namespace tandem::tasks {

Chunk chunk_of(const datasets::Batch& batch, const models::CausalModel& model) {
  const Tensor& token = batch["token"];
  if (!model.carries_state()) return {token, batch["target"]};
  const Index streams = token.size(1), words = (batch.samples + streams - 1) / streams;
  return {token.rows(0, words), batch["target"].rows(0, words)};
}

Tensor LanguageEvaluation::hidden(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const auto advanced = model_.advance(chunk_of(batch, model_).token, state_);
  if (model_.carries_state()) state_ = advanced.state.carried();
  return advanced.hidden;
}

Record LanguageEvaluation::forward(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const Tensor target = chunk_of(batch, model_).target;
  const auto [nll, guess] = model_.figures(hidden(batch), target);
  const Tensor hits = cast(equal(guess, target), DType::f32);
  Sums sums{
      .nll = nll.item(), .targets = batch.samples, .right = static_cast<std::int64_t>(sum(hits).item())};
  if (!bytes_of_.empty())
    for (const std::int64_t id : target.to_vector<std::int64_t>())
      if (id != models::CausalModel::kNoTarget) sums.bytes += bytes_of_[static_cast<std::size_t>(id)];
  RecordWriter writer;
  writer.put(sums);
  return std::move(writer).record();
}

void LanguageEvaluation::accumulate(std::span<const std::byte> record) {
  RecordReader reader(record);
  const auto sums = reader.take<Sums>();
  reader.end();
  perplexity_.add(sums.nll, sums.targets);
  right_ += sums.right;
  bytes_ += sums.bytes;
}

Metrics LanguageEvaluation::metrics() const {
  const double targets = static_cast<double>(std::max<std::int64_t>(perplexity_.targets(), 1));
  Metrics metrics{{"perplexity", perplexity_.value()},
                  {"loss", perplexity_.mean()},
                  {"accuracy", static_cast<double>(right_) / targets}};
  if (characters_)
    metrics.emplace_back(kBitsPerCharacter, perplexity_.bits_per_character(perplexity_.targets()));
  if (!bytes_of_.empty()) metrics.emplace_back(kBitsPerByte, perplexity_.bits_per_character(bytes_));
  return metrics;
}

}  // namespace tandem::tasks
