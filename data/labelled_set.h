// Options of a set of samples with a label or a mask each, and how one is opened. Each set describes
// keys of its own beside its reader; data/registry.h and data/masked_sets.h have all of them.
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

// Told the reason for each sample that was skipped; from any thread.
using SampleReport = std::function<void(const std::string&)>;

struct Splits {
  DatasetPtr train, test;
  DatasetPtr validation;             // absent unless asked for or in the files
  Index image_size = 0;              // side that images of varying size are brought to
  std::vector<std::string> notes{};  // what its owner should know, a line each
};

// What every set is told: where it lies, and how much of it is used. What a set has no use for it ignores.
struct SetOptions {
  // Folder or file; absent: where the set is usually installed.
  std::optional<std::string> path{};
  // Samples to use, drawn evenly; 0: all (synthetic: 5000 and 1000).
  Index train_size = 0;
  // Samples set aside from the training split, or used of the files' own; 0: none, or all.
  Index validation_size = 0;
  Index test_size = 0;
  Index split_seed = 0;          // draws the splits; the run's own seed does not move them
  Index max_image_mib = 256;     // that decoding one image may take
  bool exif_orientation = true;  // images are turned as it says
  // Take the next sample of the split for one that cannot be read, until there are more than max_bad_samples.
  bool skip_bad_samples = false;
  Index max_bad_samples = 100;

  std::filesystem::path place() const { return path.value_or(""); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(split_seed); }
  ImageReading image_reading() const {
    return {.memory = static_cast<std::size_t>(max_image_mib) << 20, .upright = exif_orientation};
  }
  static const options::Schema& schema();
};

// Opens the splits that the files have. The sizes are applied to what comes back.
using LabelledRegistry = options::Registry<Splits(const SetOptions&)>;

// The set that was chosen, in the sizes asked for. Throws UserError: missing files (with the package or
// archive that has them), and whatever is wrong with the files; `report` as guard_samples has it.
Splits open_set(const LabelledRegistry& family, const options::Chosen& set, const SetOptions& common,
                const SampleReport& report);

// Of splits that decode their samples: what becomes of those that cannot be read. They are skipped, and
// `report` is told of each, or their errors name the key that skips them.
void guard_samples(Splits& splits, const SetOptions& options, const SampleReport& report);

// Throws files::NotThere unless there is a path; `what` says to what.
void require_path(const SetOptions& options, std::string_view set, std::string_view what);

// ---- Keys that several sets describe alike

template <class T>
options::Describe<T>& describe_test_fraction(options::Describe<T>& keys) {
  return keys.key("test_fraction", &T::test_fraction,
                  "share of every class kept for testing, where the files have no test split",
                  {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true});
}

// Of arrays of images.
template <class T>
options::Describe<T>& describe_arrays(options::Describe<T>& keys) {
  return keys
      .key("classes", &T::classes, "number of classes; 0: what the labels say", {.min = 0, .max = 16777216})
      .key("layout", &T::layout,
           "axes of arrays of images: nhwc (height, width, channels) or nchw (channels, height, width); "
           "auto: nhwc, and what looks like nchw is refused");
}

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::Layout> {
  static constexpr std::array values{"auto", "nhwc", "nchw"};
};
