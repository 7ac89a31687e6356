#include "data/labelled_set.h"

#include <algorithm>

#include "core/error.h"
#include "data/decorators.h"
#include "data/limits.h"
#include "data/named_path.h"
#include "files/not_there.h"

namespace tandem::datasets {

const options::Schema& SetOptions::schema() {
  constexpr auto kSamples = static_cast<double>(kMaxSamples);
  static const options::Schema schema =
      options::Describe<SetOptions>()
          .key("path", &SetOptions::path, "folder or file of the set; null: its usual place of installation")
          .key("train_size", &SetOptions::train_size, "training samples to use, drawn evenly; 0: all",
               {.min = 0, .max = kSamples})
          .key("validation_size", &SetOptions::validation_size,
               "samples split off from training, on which the best checkpoint is chosen; the test split is "
               "then evaluated once, at the end; 0: both use the test split",
               {.min = 0, .max = kSamples})
          .key("test_size", &SetOptions::test_size, "test samples to use, drawn evenly; 0: all",
               {.min = 0, .max = kSamples})
          .key("split_seed", &SetOptions::split_seed, "seed of the splits, independent of the run's seed",
               {.min = 0})
          .key("max_image_mib", &SetOptions::max_image_mib,
               "memory in MiB that decoding an image file may take, in every worker at once; a larger one is "
               "refused",
               {.min = 1, .max = 1048576})
          .key("exif_orientation", &SetOptions::exif_orientation,
               "turn images and masks by their EXIF orientation; false: use the stored pixels")
          .key("skip_bad_samples", &SetOptions::skip_bad_samples,
               "replace a sample with unusable files by the next one, and log it")
          .key("max_bad_samples", &SetOptions::max_bad_samples,
               "largest number of skipped samples per split; more are an error", {.min = 0, .max = kSamples});
  return schema;
}

void require_path(const SetOptions& options, std::string_view set, std::string_view what) {
  files::require_there(options.path && !options.path->empty(), "data.path", "{} needs a path: {}", set, what);
}

namespace {

// Splits off the validation samples if the files have none, then limits the sizes.
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

}  // namespace

void guard_samples(Splits& splits, const SetOptions& options, const SampleReport& report) {
  for (DatasetPtr* split : {&splits.train, &splits.validation, &splits.test}) {
    if (!*split || !(*split)->decodes()) continue;
    if (options.skip_bad_samples) {
      *split = std::make_shared<SkipUnreadable>(*split, options.max_bad_samples, report);
    } else {
      *split = std::make_shared<NameSkipping>(*split);
    }
  }
}

Splits open_set(const LabelledRegistry& family, const options::Chosen& set, const SetOptions& common,
                const SampleReport& report) {
  options::require_sound("data", SetOptions::schema(), &common);
  Splits splits = open_named_path(common, [&] { return family.make(set, common); });
  apply_sizes(common, splits);
  guard_samples(splits, common, report);
  return splits;
}

}  // namespace tandem::datasets
