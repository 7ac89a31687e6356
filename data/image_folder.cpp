#include "data/image_folder.h"

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "data/image_file.h"
#include "data/io/byte_reader.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> subfolders(const fs::path& root) {
  require(fs::is_directory(root), root.string(), "{}, expected one subfolder per class in it",
          no_folder(root));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  require(!names.empty(), root.string(), "has no subfolders, expected one per class");
  return names;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& root, int channels, std::vector<std::string> class_names)
    : channels_(channels) {
  const std::vector<std::string> found = subfolders(root);
  if (class_names.empty()) class_names = found;
  for (const std::string& name : found) {
    const auto known = std::ranges::find(class_names, name);
    require(known != class_names.end(), root.string(), "the class \"{}\" is not in the training split{}",
            name, did_you_mean(name, class_names));
    const std::vector<fs::path> files = image_files_below(root / name);
    require(!files.empty(), (root / name).string(), "has no .jpg, .jpeg or .png file");
    files_.insert(files_.end(), files.begin(), files.end());
    labels_.insert(labels_.end(), files.size(), known - class_names.begin());
  }
  require(size() <= kMaxSamples, root.string(), "{} samples, at most {} can be numbered", size(),
          kMaxSamples);
  info_.name = "image_folder";
  info_.dtype = DType::u8;
  info_.sample_shape = {0, 0, channels};
  info_.classes = static_cast<Index>(class_names.size());
  info_.class_names = std::move(class_names);
  // Of ImageNet, the custom for photographs.
  info_.statistics = channels == 3 ? ChannelStatistics{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}
                                   : ChannelStatistics{{0.449F}, {0.226F}};
}

Sample ImageFolder::get(Index index) const {
  const auto at = static_cast<std::size_t>(index);
  return {read_image(files_[at], channels_), labels_[at]};
}

}  // namespace tandem::datasets
