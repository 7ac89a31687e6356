#include "data/registry.h"

#include "data/cifar.h"
#include "data/digits.h"
#include "data/fashion_mnist.h"
#include "data/idx.h"
#include "data/image_folder.h"
#include "data/npy.h"
#include "data/preparation.h"
#include "data/synthetic.h"

namespace tandem::datasets {

LabelledRegistry& labelled_sets() {
  static LabelledRegistry registry(
      {.what = "data set", .help = "the data set"},
      {fashion_mnist_entry, digits_entry, cifar_entry(CifarKind::cifar10), cifar_entry(CifarKind::cifar100),
       idx_entry, image_folder_entry, npy_entry, synthetic_entry});
  return registry;
}

Splits open_dataset(const LabelledSetOptions& options, const SampleReport& report) {
  return open_set(labelled_sets(), options.set, options.common, report);
}

Splits open_dataset(std::string_view name, const SetOptions& common, const options::Given& own,
                    const SampleReport& report) {
  return open_dataset({options::Choice<labelled_sets>(name, own), common}, report);
}

Pipeline training_pipeline(const Splits& splits, std::span<const TransformSpec> augment) {
  const DatasetInfo& info = splits.train->info();
  return Pipeline(info, with_sizes(info, splits.image_size, augment, false));
}

Pipeline evaluation_pipeline(const Splits& splits, std::span<const TransformSpec> augment) {
  const DatasetInfo& info = splits.train->info();
  return Pipeline(info, with_sizes(info, splits.image_size, augment, true));
}

}  // namespace tandem::datasets
