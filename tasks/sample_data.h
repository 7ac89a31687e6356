// SampleData: data of numbered samples with splits, or only its description, for families whose sets are
// Splits (data/labelled_set.h).
#pragma once

#include <vector>

#include "data/registry.h"
#include "tasks/task.h"

namespace tandem::tasks {

class SampleData final : public Data {
 public:
  // Opened data: `splits` has samples.
  explicit SampleData(datasets::Splits splits);
  // Description only. `image_size`: side that images of varying size are resized to; 0: all have one size.
  // `training_samples` 0: unknown; not kept. `notes`: see Splits.
  SampleData(datasets::DatasetInfo info, Index image_size, Index training_samples = 0,
             std::vector<std::string> notes = {});

  // Throws UserError as datasets::open_dataset.
  static std::shared_ptr<const SampleData> open(const datasets::LabelledSetOptions& set,
                                                const datasets::SampleReport& report = {});
  // Without generating synthetic samples; other sets are opened.
  static std::shared_ptr<const SampleData> describe(const datasets::LabelledSetOptions& set);
  // Throws UserError for a damaged description.
  static std::shared_ptr<const SampleData> recall(const Json& description);

  Json description() const override;
  Index training_samples() const override { return training_samples_; }
  // Compares classes by name, or by mask value if one side has no names.
  void require_like(const Json& saved, const std::string& weights) const override;
  std::optional<ReorderedData> in_order_of(const Json& saved) const override;
  // Uses as many threads as compute.
  void read_all(const std::function<void(const std::string&)>& bad) const override;

  const datasets::DatasetInfo& info() const { return splits_.train->info(); }
  Index image_size() const { return splits_.image_size; }
  bool is_open() const { return open_; }
  // A description's splits have no samples; they define pipelines.
  const datasets::Splits& splits() const { return splits_; }

 private:
  datasets::Splits splits_;
  bool open_ = false;
  Index training_samples_ = 0;
};

}  // namespace tandem::tasks
