// Classification task: see family.h.
#pragma once

#include "tasks/classification/options.h"
#include "tasks/classification/scores.h"
#include "tasks/sample_task.h"

namespace tandem::tasks {

class Classification final : public SampleTask {
 public:
  // Throws UserError when the model does not fit the data, options::OptionError for options that do not fit
  // each other.
  Classification(const ClassificationOptions& options, const Context& context,
                 std::shared_ptr<const SampleData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  PartCounts part_counts() const override {
    return loss_->batch_weight() ? PartCounts::weight : PartCounts::samples;
  }

  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  std::map<std::string, std::string> undefined_figures(const std::string&) const override {
    return ClassificationScores::undefined_figures(loss_->classes());
  }
  bool keeps_details() const override { return options_.eval.confusion; }

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override { return text_of_classes("samples"); }
  std::vector<std::string> predict_options() const override {
    return {"inputs", "--top", "--logits", "--json"};
  }
  void predict(const PredictRequest& request, Device device) override;

 protected:
  datasets::BatchWeight batch_weight() const override { return loss_->batch_weight(); }

 private:
  const ClassificationOptions options_;
  std::unique_ptr<const ClassificationLoss> loss_;
};

}  // namespace tandem::tasks
