// Data of numbered samples, split for training and testing, or what is known of it once the files are gone:
// for families whose sets are Splits (data/labelled_set.h).
#pragma once

#include <vector>

#include "data/labelled_set.h"
#include "tasks/task.h"

namespace tandem::tasks {

class SampleData final : public Data {
 public:
  // Opened: `splits` has samples.
  explicit SampleData(datasets::Splits splits);
  // Described only. `image_size`: side that images of varying size are brought to; 0: they have one size.
  // `training_samples` of 0: not known; not kept.
  SampleData(datasets::DatasetInfo info, Index image_size, Index training_samples = 0);

  // Throws UserError when the description is damaged.
  static DataPtr recall(const Json& description);

  Json description() const override;
  Index training_samples() const override { return training_samples_; }
  void require_like(const Json& saved, const std::string& weights) const override;

  const datasets::DatasetInfo& info() const { return splits_.train->info(); }
  Index image_size() const { return splits_.image_size; }
  bool is_open() const { return open_; }
  // Those of a description have no samples, and are for pipelines.
  const datasets::Splits& splits() const { return splits_; }
  // Those of a split, in order; of "train" no more than the first `few` where that is not 0. Throws
  // InternalError when the data is only described, UserError when there is no such split.
  datasets::DatasetPtr samples_of(const std::string& split, Index few = 0) const;

 private:
  datasets::Splits splits_;
  bool open_ = false;
  Index training_samples_ = 0;
};

}  // namespace tandem::tasks
