#include "data/image_folder.h"

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "data/image_file.h"
#include "data/limits.h"
#include "files/input.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> subfolders(const fs::path& root) {
  require(files::kind_of(root) == files::Kind::folder, root.string(),
          "{}, expected one subfolder per class in it", files::no_folder(root));
  std::vector<std::string> names;
  for (const auto& entry : files::entries_of(root)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;
    const files::Kind kind = files::kind_of(entry.path());
    require(kind != files::Kind::absent, entry.path().string(),
            "is a symbolic link to nothing, expected a folder of images");
    if (kind == files::Kind::folder) names.push_back(name);
  }
  require(!names.empty(), root.string(), "has no subfolders, expected one per class");
  return names;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& root, int channels, std::vector<std::string> class_names,
                         bool check_files, std::size_t memory)
    : channels_(channels), memory_(memory) {
  const std::vector<std::string> found = subfolders(root);
  if (class_names.empty()) class_names = found;
  for (const std::string& name : found) {
    const auto known = std::ranges::find(class_names, name);
    require(known != class_names.end(), root.string(), "the class \"{}\" is not in the training split{}",
            name, did_you_mean(name, class_names));
    const std::vector<fs::path> files = image_files_below(root / name, check_files);
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
  return {read_image(files_[at], channels_, memory_), labels_[at]};
}

}  // namespace tandem::datasets
