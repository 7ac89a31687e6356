// Metrics of a text classifier: those of any classifier, and details per class.
#pragma once

#include "models/text_encoder.h"
#include "tasks/classification/scores.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Uses words [T,N] and the lengths of texts, in host memory; on the device `shapes` texts have full length.
Tensor logits_of(models::TextEncoder& model, const datasets::Batch& batch);

class TextEvaluation final : public Evaluation {
 public:
  // Keeps references. `details`: count confusions.
  TextEvaluation(models::TextEncoder& model, const ClassificationLoss& loss,
                 const std::vector<std::string>& classes, bool details)
      : model_(model), classes_(classes), scores_(loss, details) {}

  Record forward(const datasets::Batch& batch) override {
    return scores_.measure(logits_of(model_, batch), batch);
  }
  void accumulate(std::span<const std::byte> record) override { scores_.take(record); }
  Metrics metrics() const override { return scores_.metrics(); }
  // "classes", their names; "confusion", rows of true classes; "per_class": for each its texts, recall and
  // precision, null if undefined.
  Json details() const override;
  std::optional<Breakdown> breakdown() const override { return scores_.breakdown(classes_); }
  std::vector<Artifact> artifacts() const override;

 private:
  models::TextEncoder& model_;
  const std::vector<std::string>& classes_;
  ClassificationScores scores_;
};

}  // namespace tandem::tasks
