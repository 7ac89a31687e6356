// Losses of classifiers.
#pragma once

#include <memory>

#include "core/options/registry.h"
#include "data/sample_source.h"

namespace tandem::tasks {

class ClassificationLoss {
 public:
  // `classes` is the width of the model's output.
  explicit ClassificationLoss(Index classes) : classes_(classes) {}
  virtual ~ClassificationLoss() = default;

  // An f32 scalar, the mean over the batch. output [N,classes]; targets are the batch's labels, or its soft
  // labels if samples were mixed.
  Tensor operator()(const Tensor& output, const datasets::Batch& batch) const;
  // The weight of a batch's loss in a mean over several; absent: its samples.
  virtual datasets::BatchWeight batch_weight() const { return {}; }
  // The weight of a label in the mean loss.
  virtual double weight_of(std::int64_t /*label*/) const { return 1.0; }

  Index classes() const { return classes_; }

 protected:
  // `soft` [N,classes] or absent.
  virtual Tensor compute(const Tensor& output, const Tensor& labels, const Tensor& soft) const = 0;

 private:
  Index classes_;
};

using ClassificationLosses = options::Registry<std::unique_ptr<ClassificationLoss>(Index classes)>;

// Default: cross_entropy. Construction throws UserError unless there are as many class weights as classes.
ClassificationLosses& classification_losses();

}  // namespace tandem::tasks
