// The splits of a data set as a run takes samples from them: which, in which order, how many at once.
#pragma once

#include <string>

#include "data/loading.h"
#include "data/sample_source.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

class SampleSplits {
 public:
  // `seed` is the run's.
  SampleSplits(std::shared_ptr<const SampleData> data, datasets::LoadingOptions loading, std::uint64_t seed)
      : data_(std::move(data)), loading_(loading), seed_(seed) {}

  // Whether the first batches are all there is (data.overfit_batches).
  bool few() const { return loading_.overfit_batches > 0; }
  // The split that chooses the best epoch, see Task::validation_split.
  std::string validation_split() const {
    return few() ? "train" : data_->splits().validation ? "validation" : "test";
  }
  // Throws InternalError when the data is only described, UserError when there is no such split.
  datasets::DatasetPtr of(const std::string& split) const;

  // How the samples of a split come, see Task::training_source and Task::evaluation_source.
  datasets::SampleOptions in_training(Device device, Index batch_size) const;
  datasets::SampleOptions in_evaluation(Device device) const;

 private:
  std::shared_ptr<const SampleData> data_;
  datasets::LoadingOptions loading_;
  std::uint64_t seed_;
};

}  // namespace tandem::tasks
