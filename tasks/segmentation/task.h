// The task of what gives a class to every pixel: see family.h.
#pragma once

#include "data/transforms/pipeline.h"
#include "tasks/registry.h"
#include "tasks/sample_splits.h"
#include "tasks/segmentation/options.h"

namespace tandem::tasks {

class Segmentation final : public Task {
 public:
  // Throws UserError when the model does not fit the data, options::OptionError when not its own options.
  Segmentation(const SegmentationOptions& options, const Context& context,
               std::shared_ptr<const SampleData> data);

  nn::Module& model() override { return *model_; }
  DataPtr data() const override { return data_; }

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  bool by_weight() const override { return loss_->by_pixels(); }

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::SourcePtr evaluation_source(const std::string& split, Device device) const override;
  std::string validation_split() const override { return splits_.validation_split(); }
  datasets::Batch made_up(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  bool keeps_details() const override { return options_.eval.confusion; }

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::vector<Signature> signatures() override;
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override { return {"inputs", "--out", "--json"}; }
  void predict(const PredictRequest& request, Device device) override;

 private:
  const SegmentationOptions options_;
  const Context context_;
  std::shared_ptr<const SampleData> data_;
  SampleSplits splits_;
  datasets::Pipeline training_;
  std::unique_ptr<const SegmentationLoss> loss_;
  nn::ModulePtr model_;
};

}  // namespace tandem::tasks
