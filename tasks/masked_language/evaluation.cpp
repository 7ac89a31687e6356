#include "tasks/masked_language/evaluation.h"

#include <algorithm>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/shapes_backend.h"
#include "data/text/stream_source.h"
#include "tasks/masked_language/options.h"

namespace tandem::tasks {

namespace {

std::int64_t hits(const Tensor& scores, const Tensor& labels) {
  return static_cast<std::int64_t>(sum(cast(equal(argmax(scores, -1), labels), DType::f32)).item());
}

double share_of(std::int64_t right, std::int64_t all) {
  return static_cast<double>(right) / static_cast<double>(std::max<std::int64_t>(all, 1));
}

}  // namespace

MaskedScores masked_scores(models::MaskedModel& model, const datasets::Batch& batch) {
  const Tensor& tokens = batch["tokens"];
  const Tensor hidden =
      model.hidden({.tokens = tokens,
                    .segments = batch.find("segments"),
                    .lengths = tokens.device() == kShapes ? Tensor() : batch.on_host("lengths")});
  const Tensor &positions = batch["masked_positions"], &labels = batch["masked_labels"];
  const Shape chosen{positions.numel()};
  const Tensor rows = reshape(hidden, {hidden.size(0) * hidden.size(1), hidden.size(2)});
  MaskedScores scores{.words = model.word_scores(index_select(rows, reshape(positions, chosen), 0)),
                      .labels = reshape(labels, chosen),
                      .next = {}};
  if (model.scores_next()) scores.next = model.next_scores(hidden);
  return scores;
}

Record MaskedEvaluation::forward(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const MaskedScores scores = masked_scores(model_, batch);
  Sums sums{.nll = cross_entropy(scores.words, scores.labels,
                                 {.ignore_index = datasets::kNoTarget, .reduce = Reduce::sum})
                       .item(),
            .words = static_cast<std::int64_t>(batch.weight),
            .right = hits(scores.words, scores.labels)};
  if (scores.next.defined()) {
    const Tensor& next = batch["next"];
    sums.next_nll = cross_entropy(scores.next, next, {.reduce = Reduce::sum}).item();
    sums.pairs = next.numel();
    sums.next_right = hits(scores.next, next);
  }
  RecordWriter writer;
  writer.put(sums);
  return std::move(writer).record();
}

void MaskedEvaluation::accumulate(std::span<const std::byte> record) {
  RecordReader reader(record);
  const auto sums = reader.take<Sums>();
  reader.end();
  words_.add(sums.nll, sums.words);
  pairs_.add(sums.next_nll, sums.pairs);
  right_ += sums.right;
  next_right_ += sums.next_right;
}

Metrics MaskedEvaluation::metrics() const {
  const bool pairs = model_.scores_next();
  Metrics metrics{{"loss", words_.mean() + (pairs ? pairs_.mean() : 0.0)},
                  {"perplexity", words_.value()},
                  {"accuracy", share_of(right_, words_.targets())}};
  if (pairs) metrics.emplace_back(kNextAccuracy, share_of(next_right_, pairs_.targets()));
  return metrics;
}

}  // namespace tandem::tasks
