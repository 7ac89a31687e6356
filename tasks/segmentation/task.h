// Segmentation task: see family.h.
#pragma once

#include "tasks/sample_task.h"
#include "tasks/segmentation/options.h"

namespace tandem::tasks {

class Segmentation final : public SampleTask {
 public:
  // Throws UserError when the model does not fit the data, options::OptionError for options that do not fit
  // each other.
  Segmentation(const SegmentationOptions& options, const Context& context,
               std::shared_ptr<const SampleData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  PartCounts part_counts() const override;
  // Pixels weighted by class, summed by the source.
  optim::PartWeight measured_weight(const datasets::Batch& batch) const override { return batch.weight; }

  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  bool keeps_details() const override { return options_.eval.confusion; }

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override { return text_of_classes("images with masks"); }
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override { return {"inputs", "--out", "--json"}; }
  void predict(const PredictRequest& request, Device device) override;

 private:
  datasets::BatchWeight batch_weight() const override { return loss_->batch_weight(); }

  const SegmentationOptions options_;
  std::unique_ptr<const SegmentationLoss> loss_;
};

}  // namespace tandem::tasks
