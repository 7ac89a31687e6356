#include "tasks/sample_splits.h"

#include <fmt/core.h>

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
  if (split == "train" && is_overfit_run())
    return first_samples(splits.train, loading_.overfit_batches * loading_.batch_size);
  if (split == "train") return splits.train;
  require(splits.validation != nullptr, "",
          "there is no validation split; data.validation_size sets one aside");
  return splits.validation;
}

std::vector<datasets::TransformSpec> SampleSplits::kept(
    std::span<const datasets::TransformSpec> augment) const {
  if (is_overfit_run()) return datasets::evaluation_transforms(augment);
  return {augment.begin(), augment.end()};
}

datasets::Pipeline SampleSplits::training_pipeline(std::span<const datasets::TransformSpec> augment) const {
  return datasets::training_pipeline(data_->splits(), kept(augment));
}

datasets::SourcePtr SampleSplits::training_source(std::span<const datasets::TransformSpec> augment,
                                                  Device device, Index batch_size,
                                                  datasets::BatchWeight weigh) const {
  const datasets::DatasetPtr dataset = of("train");
  const Index samples = dataset->size();
  const Index size = batch_size > 0 ? std::min(batch_size, samples) : loading_.batch_size;
  datasets::SampleOptions options{.batch_size = size,
                                  .shuffle = loading_.shuffle && !is_overfit_run(),
                                  .drop_last = (loading_.drop_last || batch_size > 0) && samples >= size,
                                  .seed = seed_,
                                  .device = device,
                                  .weigh = std::move(weigh)};
  return std::make_shared<datasets::SampleSource>(dataset, training_pipeline(augment), std::move(options));
}

datasets::SourcePtr SampleSplits::evaluation_source(std::span<const datasets::TransformSpec> augment,
                                                    const std::string& split, Device device) const {
  return std::make_shared<datasets::SampleSource>(
      of(split), datasets::evaluation_pipeline(data_->splits(), kept(augment)),
      datasets::SampleOptions{.batch_size = loading_.evaluated_at_once(), .device = device});
}

std::string SampleSplits::text_of(const datasets::Source& training, std::string_view samples) const {
  return fmt::format("{}: {} training, {} {} {}", data_->info().name,
                     training.samples_before({0, training.batches(0)}), of(validation_split())->size(),
                     validation_split(), samples);
}

}  // namespace tandem::tasks
