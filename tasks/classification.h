// Classification: one class for each sample. Metrics: accuracy, top5 (with more than five classes), loss.
#pragma once

#include "tasks/task.h"

namespace tandem::tasks {

class Classification final : public Task {
 public:
  // `classes` is the width of the model's output. Throws UserError unless there are as many class weights.
  Classification(const config::LossConfig& loss, Index classes);

  // output [N,classes]; targets are the batch's labels, or its soft targets where samples were mixed.
  Tensor loss(const Tensor& output, const datasets::Batch& batch) const override;
  datasets::BatchWeight batch_weight() const override;
  std::unique_ptr<Evaluation> evaluation(bool confusion) const override;
  bool greater_is_better(const std::string& metric) const override { return metric != "loss"; }

  Index classes() const { return classes_; }
  // What a label counts in the mean loss.
  double weight_of(std::int64_t label) const;

 private:
  config::LossConfig config_;
  Index classes_;
  mutable Tensor class_weights_;  // [classes] or absent; where the scores were last
};

}  // namespace tandem::tasks
