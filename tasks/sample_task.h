// Base of tasks whose single model maps images of numbered samples to one result each.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/transforms/pipeline.h"
#include "tasks/registry.h"
#include "tasks/sample_splits.h"

namespace tandem::tasks {

class SampleTask : public Task {
 public:
  // `augment`: the configuration's transforms. Derived classes set `model_`.
  SampleTask(std::shared_ptr<const SampleData> data, std::vector<datasets::TransformSpec> augment,
             const Context& context);

  nn::Module& model() override { return *model_; }
  DataPtr data() const override { return data_; }

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::SourcePtr evaluation_source(const std::string& split, Device device) const override;
  std::string validation_split() const override { return splits_.validation_split(); }
  std::vector<std::string> notes_of_data() const override { return data_->splits().notes; }

  std::vector<Signature> signatures() override;
  std::map<std::string, std::string> export_metadata() const override;

 protected:
  // See datasets::SampleOptions::weigh.
  virtual datasets::BatchWeight batch_weight() const { return {}; }
  // The model's output for "image"; then calls `context.ready`.
  Tensor output(const datasets::Batch& batch, const LossContext& context);
  // SampleSplits::text_of, and the number of classes.
  std::string text_of_classes(std::string_view samples) const;

  const std::shared_ptr<const SampleData> data_;
  const std::vector<datasets::TransformSpec> augment_;
  const SampleSplits splits_;
  const datasets::Pipeline training_;  // of training samples
  nn::ModulePtr model_;
};

}  // namespace tandem::tasks
