// The data of a GAN: images of a labelled set, whose labels nobody looks at, and the classifier that judges
// what is made of them.
#pragma once

#include <memory>
#include <vector>

#include "tasks/gan/classifier.h"
#include "tasks/gan/options.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

class GanData final : public Data {
 public:
  // Throws UserError unless `samples` are images of 8 bits. `classifier` may be absent where nothing is
  // evaluated.
  GanData(std::shared_ptr<const SampleData> samples, std::shared_ptr<Classifier> classifier);

  // With the classifier that `options` name, so that a wrong one is found before training.
  static DataPtr open(const GanOptions& options, const datasets::SampleReport& report);
  static DataPtr describe(const GanOptions& options);
  static DataPtr recall(const Json& description);

  // The samples', and the classifier's as "classifier" where there is one.
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
