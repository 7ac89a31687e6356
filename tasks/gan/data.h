// Data of a GAN: images (labels are ignored), and the classifier that evaluates generated images.
#pragma once

#include <memory>

#include "tasks/gan/classifier.h"
#include "tasks/gan/options.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

class GanData final : public Data {
 public:
  // Throws UserError unless `samples` are 8-bit images. `classifier` may be absent without evaluation.
  GanData(std::shared_ptr<const SampleData> samples, std::shared_ptr<Classifier> classifier);

  // Loads the classifier named by `options`, so that errors occur before training.
  static DataPtr open(const GanOptions& options, const datasets::SampleReport& report);
  static DataPtr describe(const GanOptions& options);
  static DataPtr recall(const Json& description);

  // The samples', with the classifier's as "classifier" if present.
  Json description() const override;
  Index training_samples() const override { return samples_->training_samples(); }
  void require_like(const Json& saved, const std::string& weights) const override;
  void read_all(const std::function<void(const std::string&)>& bad) const override {
    samples_->read_all(bad);
  }

  const SampleData& samples() const { return *samples_; }
  std::shared_ptr<const SampleData> shared_samples() const { return samples_; }
  const datasets::DatasetInfo& info() const { return samples_->info(); }
  const std::shared_ptr<Classifier>& classifier() const { return classifier_; }

 private:
  std::shared_ptr<const SampleData> samples_;
  std::shared_ptr<Classifier> classifier_;
};

}  // namespace tandem::tasks
