// Options of data sets whose samples have a label or a mask. Each set describes its own keys beside its
// reader; data/registry.h and data/masked_sets.h list the sets.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/options/registry.h"
#include "data/dataset.h"
#include "data/image_file.h"
#include "data/layout.h"

namespace tandem::datasets {

// Receives the reason for each skipped sample, from any thread.
using SampleReport = std::function<void(const std::string&)>;

struct Splits {
  DatasetPtr train, test;
  DatasetPtr validation;             // absent unless requested or in the files
  Index image_size = 0;              // side to which images of varying size are brought
  std::vector<std::string> notes{};  // hints for the user, one line each
};

// Options common to all sets: place and sizes. A set ignores those that do not apply to it.
struct SetOptions {
  // Folder or file; absent: the usual place of installation.
  std::optional<std::string> path{};
  // Samples to use, drawn evenly; 0: all (synthetic: 5000 and 1000).
  Index train_size = 0;
  // Validation samples, split off from training or taken of the files' own split; 0: none, or all.
  Index validation_size = 0;
  Index test_size = 0;
  Index split_seed = 0;          // seed of the splits, independent of the run's seed
  Index max_image_mib = 256;     // limit for decoding one image
  bool exif_orientation = true;  // turn images by it
  // Replace an unreadable sample by the next one, for at most max_bad_samples.
  bool skip_bad_samples = false;
  Index max_bad_samples = 100;

  std::filesystem::path place() const { return path.value_or(""); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(split_seed); }
  ImageReading image_reading() const {
    return {.memory = static_cast<std::size_t>(max_image_mib) << 20, .upright = exif_orientation};
  }
  static const options::Schema& schema();
};

// Opens the splits in the files; open_set() then applies the sizes.
using LabelledRegistry = options::Registry<Splits(const SetOptions&)>;

// Opens the chosen set in the requested sizes. Throws UserError for missing files (with the package or
// archive that has them) and invalid ones. `report`: see guard_samples().
Splits open_set(const LabelledRegistry& family, const options::Chosen& set, const SetOptions& common,
                const SampleReport& report);

// Handles unreadable samples of splits that decode: skips and reports them, or adds the key that skips to
// their errors.
void guard_samples(Splits& splits, const SetOptions& options, const SampleReport& report);

// Throws files::NotThere without a path; `what` describes the expected file.
void require_path(const SetOptions& options, std::string_view set, std::string_view what);

// ---- Keys shared by several sets

template <class T>
options::Describe<T>& describe_test_fraction(options::Describe<T>& keys) {
  return keys.key("test_fraction", &T::test_fraction,
                  "share of each class kept for testing, if the files have no test split",
                  {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true});
}

// Keys of image arrays.
template <class T>
options::Describe<T>& describe_arrays(options::Describe<T>& keys) {
  return keys
      .key("classes", &T::classes, "number of classes; 0: the highest label + 1", {.min = 0, .max = 16777216})
      .key("layout", &T::layout,
           "axes of arrays of images: nhwc (height, width, channels) or nchw (channels, height, width); "
           "auto: nhwc, an error if the shape looks like nchw");
}

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::Layout> {
  static constexpr std::array values{"auto", "nhwc", "nchw"};
};
