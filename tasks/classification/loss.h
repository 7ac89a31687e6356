// The losses of a classifier.
#pragma once

#include "config/config.h"
#include "data/sample_source.h"

namespace tandem::tasks {

class ClassificationLoss {
 public:
  // `classes` is the width of the model's output. Throws UserError unless there are as many class weights.
  ClassificationLoss(const config::LossConfig& loss, Index classes);

  // An f32 scalar, the mean over the batch. output [N,classes]; targets are the batch's labels, or its soft
  // labels where samples were mixed.
  Tensor operator()(const Tensor& output, const datasets::Batch& batch) const;
  // What the loss of a batch counts in a mean over several; absent: its samples.
  datasets::BatchWeight batch_weight() const;

  Index classes() const { return classes_; }
  // What a label counts in the mean loss.
  double weight_of(std::int64_t label) const;

 private:
  config::LossConfig config_;
  Index classes_;
  mutable Tensor class_weights_;  // [classes] or absent; where the scores were last
};

}  // namespace tandem::tasks
