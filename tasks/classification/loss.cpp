#include "tasks/classification/loss.h"

#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "core/error.h"

namespace tandem::tasks {

ClassificationLoss::ClassificationLoss(const config::LossConfig& loss, Index classes)
    : config_(loss), classes_(classes) {
  if (!loss.class_weights) return;
  require(static_cast<Index>(loss.class_weights->size()) == classes, "",
          "loss.class_weights: has {} weights, the model has {} classes", loss.class_weights->size(),
          classes);
  const std::vector<float> weights(loss.class_weights->begin(), loss.class_weights->end());
  class_weights_ = Tensor::from(weights, {classes});
}

double ClassificationLoss::weight_of(std::int64_t label) const {
  return config_.class_weights ? (*config_.class_weights)[static_cast<std::size_t>(label)] : 1.0;
}

Tensor ClassificationLoss::operator()(const Tensor& output, const datasets::Batch& batch) const {
  require(output.rank() == 2 && output.size(1) == classes_, "model",
          "a classifier gives [batch, {}] scores, this one gives {}", classes_, to_string(output.shape()));
  if (class_weights_.defined()) class_weights_ = class_weights_.to(output.device());
  const Tensor& soft = batch.find("soft_label");
  if (config_.name == "cross_entropy")
    return cross_entropy(
        output, soft.defined() ? soft : batch["label"],
        {.label_smoothing = config_.label_smoothing, .ignore_index = {}, .class_weights = class_weights_});
  const Tensor targets = soft.defined() ? soft : one_hot(batch["label"], classes_);
  if (config_.name == "focal") return focal_loss(output, targets, config_.alpha, config_.gamma);
  if (config_.name == "bce_with_logits") return bce_with_logits(output, targets);
  return mse_loss(output, targets);
}

datasets::BatchWeight ClassificationLoss::batch_weight() const {
  if (!config_.by_class_weights()) return {};
  return [weights = *config_.class_weights](std::span<const std::int64_t> labels) {
    double sum = 0.0;
    for (const std::int64_t label : labels) sum += weights[static_cast<std::size_t>(label)];
    return sum;
  };
}

}  // namespace tandem::tasks
