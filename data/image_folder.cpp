#include "data/image_folder.h"

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "data/decorators.h"
#include "data/limits.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> subfolders(const fs::path& root, PassedOver& passed_over) {
  require(files::kind_of(root) == files::Kind::folder, root.string(),
          "{}, expected one subfolder per class in it", files::no_folder(root));
  std::vector<std::string> names;
  for (const auto& entry : files::entries_of(root)) {
    const std::string name = entry.path().filename().string();
    if (is_foreign(entry.path())) {
      passed_over.foreign.add(entry.path());
      continue;
    }
    const files::Kind kind = files::kind_of(entry.path());
    require(kind != files::Kind::absent, entry.path().string(),
            "is a symbolic link to nothing, expected a folder of images");
    if (kind == files::Kind::folder) names.push_back(name);
  }
  require(!names.empty(), root.string(), "has no subfolders, expected one per class");
  return names;
}

constexpr Index kDefaultImageSize = 224;

Splits open_image_folder(const ImageFolderOptions& own, const SetOptions& common) {
  require_path(common, "image_folder",
               "a folder with train/ and test/ (or val/), or with one subfolder per class");
  const int channels = own.channels == 0 ? 3 : static_cast<int>(own.channels);
  require(channels == 1 || channels == 3, "data.channels", "is {}, images of a folder have 3 or 1",
          own.channels);
  Splits splits{.train = {}, .test = {}, .validation = {}, .image_size = own.image_size};
  if (splits.image_size == 0) splits.image_size = kDefaultImageSize;
  const bool check = !common.skip_bad_samples;  // otherwise reading skips and counts them
  const fs::path root = common.place();
  files::require_there(files::kind_of(root) != files::Kind::absent, root.string(),
                       "{}, expected one subfolder per class in it", files::no_folder(root));
  const fs::path train = first_folder(root, {"train"});
  if (train.empty()) {
    const auto all = std::make_shared<ImageFolder>(root, channels, std::vector<std::string>{}, check,
                                                   common.image_reading());
    const SplitPair pair = split_by_class(all, all->labels(), own.test_fraction, common.seed());
    splits.train = pair.first;
    splits.test = pair.second;
    splits.notes = all->passed_over().notes();
    return splits;
  }
  const fs::path test = first_folder(root, {"test"});
  const fs::path validation = first_folder(root, {"val", "valid", "validation"});
  require(!test.empty() || !validation.empty(), root.string(), "has train/, but neither test/ nor val/");
  const auto train_set = std::make_shared<ImageFolder>(train, channels, std::vector<std::string>{}, check,
                                                       common.image_reading());
  PassedOver passed_over = train_set->passed_over();
  const auto held_out = [&](const fs::path& folder) {
    const auto set = std::make_shared<ImageFolder>(folder, channels, train_set->info().class_names, check,
                                                   common.image_reading());
    passed_over += set->passed_over();
    return set;
  };
  splits.train = train_set;
  splits.test = held_out(test.empty() ? validation : test);
  if (!test.empty() && !validation.empty()) splits.validation = held_out(validation);
  splits.notes = passed_over.notes();
  return splits;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& root, int channels, std::vector<std::string> class_names,
                         bool check_files, const ImageReading& reading)
    : channels_(channels), reading_(reading) {
  const std::vector<std::string> found = subfolders(root, passed_over_);
  if (class_names.empty()) class_names = found;
  for (const std::string& name : found) {
    const auto known = std::ranges::find(class_names, name);
    require(known != class_names.end(), root.string(), "the class \"{}\" is not in the training split{}",
            name, did_you_mean(name, class_names));
    const std::vector<fs::path> files = image_files_below(root / name, check_files, &passed_over_);
    require(!files.empty(), (root / name).string(), "has no .jpg, .jpeg or .png file");
    files_.insert(files_.end(), files.begin(), files.end());
    labels_.insert(labels_.end(), files.size(), known - class_names.begin());
  }
  require(size() <= kMaxSamples, root.string(), "{} samples, at most {} can be numbered", size(),
          kMaxSamples);
  info_.name = "image_folder";
  info_.dtype = DType::u8;
  info_.sample_shape = {0, 0, channels};
  info_.as_stored = !reading.upright;
  info_.classes = static_cast<Index>(class_names.size());
  info_.class_names = std::move(class_names);
  // The statistics of ImageNet, customary for photographs.
  info_.statistics = channels == 3 ? ChannelStatistics{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}
                                   : ChannelStatistics{{0.449F}, {0.226F}};
}

Sample ImageFolder::get(Index index) const {
  const auto at = static_cast<std::size_t>(index);
  return {read_image(files_[at], channels_, reading_), labels_[at]};
}

LabelledRegistry::Entry image_folder_entry() {
  options::Describe<ImageFolderOptions> keys;
  describe_test_fraction(keys)
      .key("image_size", &ImageFolderOptions::image_size,
           "side in pixels to which images are resized and cropped; 0: 224", {.min = 0, .max = 65536})
      .key("channels", &ImageFolderOptions::channels, "3, or 1 for grey; 0: 3", {.min = 0, .max = 65536});
  return LabelledRegistry::entry<ImageFolderOptions>(
      "image_folder", "JPEG and PNG files, one subfolder per class", keys, open_image_folder);
}

}  // namespace tandem::datasets
