// Splits of a data set as a run samples them: selection, order and batches.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/loading.h"
#include "data/sample_source.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

class SampleSplits {
 public:
  // `seed`: of the run.
  SampleSplits(std::shared_ptr<const SampleData> data, datasets::LoadingOptions loading, std::uint64_t seed)
      : data_(std::move(data)), loading_(loading), seed_(seed) {}

  // Whether the run trains on the first batches only (data.overfit_batches).
  bool is_overfit_run() const { return loading_.overfit_batches > 0; }
  // The split that selects the best epoch, see Task::validation_split.
  std::string validation_split() const {
    return is_overfit_run() ? "train" : data_->splits().validation ? "validation" : "test";
  }
  // Throws InternalError when the data is only described, UserError for a missing split.
  datasets::DatasetPtr of(const std::string& split) const;

  // Pipeline of training samples with the configuration's transforms; in an overfit run that of evaluation.
  datasets::Pipeline training_pipeline(std::span<const datasets::TransformSpec> augment) const;
  // See Task.
  datasets::SourcePtr training_source(std::span<const datasets::TransformSpec> augment, Device device,
                                      Index batch_size, datasets::BatchWeight weigh = {}) const;
  datasets::SourcePtr evaluation_source(std::span<const datasets::TransformSpec> augment,
                                        const std::string& split, Device device) const;
  // "digits: 1438 training, 359 test samples": of an epoch of `training`, and of validation_split().
  std::string text_of(const datasets::Source& training, std::string_view samples) const;

 private:
  // Drops random transforms in an overfit run.
  std::vector<datasets::TransformSpec> kept(std::span<const datasets::TransformSpec> augment) const;

  std::shared_ptr<const SampleData> data_;
  datasets::LoadingOptions loading_;
  std::uint64_t seed_;
};

}  // namespace tandem::tasks
