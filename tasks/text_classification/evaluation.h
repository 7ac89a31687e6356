// The figures of a classifier of texts: those of any classifier, and in detail those of each class.
#pragma once

#include "models/text_encoder.h"
#include "tasks/classification/scores.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Words [T,N] and, in host memory, how many of each text count; on the device `shapes`, which has no lengths,
// all of them.
Tensor logits_of(models::TextEncoder& model, const datasets::Batch& batch);

class TextEvaluation final : public Evaluation {
 public:
  // All are kept by reference. `details` asks for confusions.
  TextEvaluation(models::TextEncoder& model, const ClassificationLoss& loss,
                 const std::vector<std::string>& classes, bool details)
      : model_(model), classes_(classes), scores_(loss, details) {}

  Record forward(const datasets::Batch& batch) override {
    return scores_.measure(logits_of(model_, batch), batch);
  }
  void accumulate(std::span<const std::byte> record) override { scores_.take(record); }
  Metrics metrics() const override { return scores_.metrics(); }
  // "classes", their names; "confusion", rows of true classes; "per_class": for each its texts, the share of
  // them that were found (recall), and the share of what was taken for it that is it (precision), null of
  // none.
  Json details() const override;
  std::optional<Breakdown> breakdown() const override { return scores_.breakdown(classes_); }
  std::vector<Artifact> artifacts() const override;

 private:
  models::TextEncoder& model_;
  const std::vector<std::string>& classes_;
  ClassificationScores scores_;
};

}  // namespace tandem::tasks
