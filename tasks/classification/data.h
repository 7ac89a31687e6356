// The data of a classifier: samples with a class each, or what is known of them once the files are gone.
#pragma once

#include <vector>

#include "data/registry.h"
#include "tasks/registry.h"

namespace tandem::tasks {

class ClassificationData final : public Data {
 public:
  // Opened: `splits` has samples.
  explicit ClassificationData(datasets::Splits splits);
  // Described only. `image_size`: side that images of varying size are brought to; 0: they have one size.
  // `training_samples` of 0: not known; not kept.
  ClassificationData(datasets::DatasetInfo info, Index image_size, Index training_samples = 0);

  static DataPtr open(const datasets::LabelledSetOptions& options, const SampleReport& report);
  // Synthetic data needs no samples to be known.
  static DataPtr describe(const datasets::LabelledSetOptions& options);
  static DataPtr recall(const Json& description);

  Json description() const override;
  Index training_samples() const override { return training_samples_; }
  void require_like(const Json& saved, const std::string& weights) const override;

  const datasets::DatasetInfo& info() const { return splits_.train->info(); }
  Index image_size() const { return splits_.image_size; }
  bool is_open() const { return open_; }
  // Those of a description have no samples, and are for pipelines.
  const datasets::Splits& splits() const { return splits_; }

 private:
  datasets::Splits splits_;
  bool open_ = false;
  Index training_samples_ = 0;
};

}  // namespace tandem::tasks
