#include "data/labelled_set.h"

#include "core/error.h"
#include "data/limits.h"

namespace tandem::datasets {

const options::Schema& SetOptions::schema() {
  constexpr auto kSamples = static_cast<double>(kMaxSamples);
  static const options::Schema schema =
      options::Describe<SetOptions>()
          .key("path", &SetOptions::path, "its folder or file; null: where it is usually installed")
          .key("train_size", &SetOptions::train_size, "training samples to use, drawn evenly; 0: all",
               {.min = 0, .max = kSamples})
          .key("validation_size", &SetOptions::validation_size,
               "samples set aside from training, by which the best checkpoint is chosen; the test split is "
               "then used "
               "once, at the end; 0: evaluations and that choice use the test split",
               {.min = 0, .max = kSamples})
          .key("test_size", &SetOptions::test_size, "test samples to use, drawn evenly; 0: all",
               {.min = 0, .max = kSamples})
          .key("split_seed", &SetOptions::split_seed, "draws the splits, whatever the seed of the run",
               {.min = 0})
          .key("max_image_mib", &SetOptions::max_image_mib,
               "memory in MiB that decoding an image file may take, in every worker at once; a larger one is "
               "refused",
               {.min = 1, .max = 1048576});
  return schema;
}

void require_path(const SetOptions& options, std::string_view set, std::string_view what) {
  require(options.path && !options.path->empty(), "data.path", "{} needs a path: {}", set, what);
}

}  // namespace tandem::datasets
