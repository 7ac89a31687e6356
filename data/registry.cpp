#include "data/registry.h"

#include <algorithm>

#include "core/error.h"
#include "data/cifar.h"
#include "data/decorators.h"
#include "data/digits.h"
#include "data/fashion_mnist.h"
#include "data/idx.h"
#include "data/image_folder.h"
#include "data/npy.h"
#include "data/preparation.h"
#include "data/synthetic.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

// Takes the validation samples from the training split where the files have none, then applies the sizes
// asked for.
void apply_sizes(const SetOptions& options, Splits& splits) {
  if (!splits.validation && options.validation_size > 0) {
    const Index size = splits.train->size();
    require(options.validation_size < size, "data.validation_size",
            "is {}, the training split has {} samples", options.validation_size, size);
    std::vector<std::uint32_t> order = permutation(size, options.seed(), 2);
    const auto cut = order.begin() + options.validation_size;
    std::vector<std::uint32_t> held_out(order.begin(), cut), rest(cut, order.end());
    std::ranges::sort(held_out);
    std::ranges::sort(rest);
    splits.validation = std::make_shared<Subset>(splits.train, std::move(held_out));
    splits.train = std::make_shared<Subset>(splits.train, std::move(rest));
  }
  splits.train = limited(splits.train, options.train_size, options.seed());
  splits.validation = limited(splits.validation, options.validation_size, options.seed());
  splits.test = limited(splits.test, options.test_size, options.seed());
}

// What is wrong with the path itself is said of the key that names it.
Splits open_path(const LabelledSetOptions& options, const SampleReport& report) {
  const std::string path = options.common.place().string(), place = fmt::format("[{}] ", path);
  try {
    return labelled_sets().make(options.set, options.common, report);
  } catch (const fs::filesystem_error& error) {
    throw UserError("data.path",
                    fmt::format("{}: cannot be read: {}", error.path1().string(), error.code().message()));
  } catch (const UserError& error) {
    const std::string_view what = error.what();
    if (path.empty() || !what.starts_with(place)) throw;
    throw UserError("data.path", fmt::format("{}: {}", path, what.substr(place.size())));
  }
}

}  // namespace

const LabelledFamily& labelled_sets() {
  static const LabelledFamily family(
      {.what = "data set", .help = "the data set"},
      {fashion_mnist_entry(), digits_entry(), cifar_entry(CifarKind::cifar10),
       cifar_entry(CifarKind::cifar100), idx_entry(), image_folder_entry(), npy_entry(), synthetic_entry()});
  return family;
}

const options::Schema& LabelledSetOptions::schema() {
  static const options::Schema schema = options::Describe<LabelledSetOptions>()
                                            .choice(&LabelledSetOptions::set)
                                            .include(&LabelledSetOptions::common)
                                            .options_of(&LabelledSetOptions::set)
                                            .short_key("name");
  return schema;
}

Splits open_dataset(const LabelledSetOptions& options, const SampleReport& report) {
  options::require_sound("data", SetOptions::schema(), &options.common);
  Splits splits = open_path(options, report);
  apply_sizes(options.common, splits);
  return splits;
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
