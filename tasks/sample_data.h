// Data of numbered samples, split for training and testing, or what is known of it once the files are gone:
// for families whose sets are Splits (data/labelled_set.h).
#pragma once

#include <vector>

#include "data/registry.h"
#include "tasks/task.h"

namespace tandem::tasks {

class SampleData final : public Data {
 public:
  // Opened: `splits` has samples.
  explicit SampleData(datasets::Splits splits);
  // Described only. `image_size`: side that images of varying size are brought to; 0: they have one size.
  // `training_samples` of 0: not known; not kept. `notes` as Splits has them.
  SampleData(datasets::DatasetInfo info, Index image_size, Index training_samples = 0,
             std::vector<std::string> notes = {});

  // Throws UserError as datasets::open_dataset.
  static std::shared_ptr<const SampleData> open(const datasets::LabelledSetOptions& set,
                                                const datasets::SampleReport& report = {});
  // Without making the samples of synthetic data; other sets are opened.
  static std::shared_ptr<const SampleData> describe(const datasets::LabelledSetOptions& set);
  // Throws UserError when the description is damaged.
  static std::shared_ptr<const SampleData> recall(const Json& description);

  Json description() const override;
  Index training_samples() const override { return training_samples_; }
  // Classes are told apart by their names, or where one side has none by what stands for them in masks.
  void require_like(const Json& saved, const std::string& weights) const override;
  std::optional<ReorderedData> in_order_of(const Json& saved) const override;
  // By as many threads as compute.
  void read_all(const std::function<void(const std::string&)>& bad) const override;

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
