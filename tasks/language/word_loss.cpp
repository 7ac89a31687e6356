#include "tasks/language/word_loss.h"

#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "data/text/stream_source.h"

namespace tandem::tasks {

using datasets::kNoTarget;

Tensor word_loss(models::LanguageModel& model, const Tensor& y, const datasets::Batch& batch,
                 const WordLossOptions& options) {
  const auto ready = [&] {
    if (options.ready) options.ready();
  };
  const Tensor target = chunk_of(batch).target;
  if (nn::AdaptiveSoftmax* const adaptive = model.adaptive()) {
    ready();
    return adaptive->loss(y, target, kNoTarget);
  }
  if (nn::SampledSoftmax* const sampled = model.sampled()) {
    ready();
    const Tensor counts = batch["target_log_count"].rows(0, target.size(0));
    return sampled->loss(y, target, {batch["candidate"], batch["candidate_log_count"], counts}, kNoTarget);
  }
  const Tensor logits = model.decoder()(y);
  ready();
  return cross_entropy(logits, target,
                       {.label_smoothing = options.label_smoothing, .ignore_index = kNoTarget});
}

WordFigures word_figures(models::LanguageModel& model, const Tensor& y, const Tensor& target) {
  if (nn::AdaptiveSoftmax* const adaptive = model.adaptive())
    return {sum(adaptive->negative_log_likelihood(y, target, kNoTarget)), adaptive->predict(y)};
  const Tensor logits = model.decoder()(y);
  return {cross_entropy(logits, target, {.ignore_index = kNoTarget, .reduce = Reduce::sum}), argmax(logits)};
}

}  // namespace tandem::tasks
