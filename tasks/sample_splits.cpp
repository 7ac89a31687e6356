#include "tasks/sample_splits.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "data/decorators.h"

namespace tandem::tasks {

namespace {

datasets::DatasetPtr first_samples(const datasets::DatasetPtr& dataset, Index count) {
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(std::min(count, dataset->size())));
  std::iota(indices.begin(), indices.end(), 0U);
  return std::make_shared<datasets::Subset>(dataset, std::move(indices));
}

}  // namespace

datasets::DatasetPtr SampleSplits::of(const std::string& split) const {
  ensure(data_->is_open(), "data", "{} is only described", data_->info().name);
  const datasets::Splits& splits = data_->splits();
  if (split == "test") return splits.test;
  if (split == "train" && few())
    return first_samples(splits.train, loading_.overfit_batches * loading_.batch_size);
  if (split == "train") return splits.train;
  require(splits.validation != nullptr, "",
          "there is no validation split; data.validation_size sets one aside");
  return splits.validation;
}

datasets::SampleOptions SampleSplits::in_training(Device device, Index batch_size) const {
  const Index samples = of("train")->size();
  const Index size = batch_size > 0 ? std::min(batch_size, samples) : loading_.batch_size;
  return {.batch_size = size,
          .shuffle = loading_.shuffle && !few(),
          .drop_last = (loading_.drop_last || batch_size > 0) && samples >= size,
          .seed = seed_,
          .device = device};
}

datasets::SampleOptions SampleSplits::in_evaluation(Device device) const {
  return {.batch_size = loading_.evaluated_at_once(), .device = device};
}

}  // namespace tandem::tasks
