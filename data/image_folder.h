// Image folders: one subfolder per class, with JPEG and PNG files at any depth. Classes are the subfolders'
// names in byte order.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/image_file.h"
#include "data/labelled_set.h"
#include "data/passed_over.h"

namespace tandem::datasets {

class ImageFolder final : public Dataset {
 public:
  // `class_names` fixes the classes, as a test split needs; empty takes the subfolders' names. Throws
  // UserError when there is no class, a class has no images, or a subfolder is not a class. With
  // `check_files`, also throws when an image name is not a regular file; otherwise reading it throws.
  ImageFolder(const std::filesystem::path& root, int channels, std::vector<std::string> class_names = {},
              bool check_files = true, const ImageReading& reading = {});

  Index size() const override { return static_cast<Index>(files_.size()); }
  Sample get(Index index) const override;
  bool decodes() const override { return true; }

  const std::vector<std::int64_t>& labels() const { return labels_; }
  const PassedOver& passed_over() const { return passed_over_; }
  const std::filesystem::path& file(Index index) const { return files_[static_cast<std::size_t>(index)]; }

 private:
  int channels_;
  ImageReading reading_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::int64_t> labels_;
  PassedOver passed_over_;
};

struct ImageFolderOptions {
  double test_fraction = 0.2;  // of each class, if there are no folders for the splits
  Index image_size = 0;        // side to which images are resized and cropped; 0: 224
  Index channels = 0;          // 3 or 1; 0: 3
};
// `path` has train/ and test/ (or val/), or one subfolder per class.
LabelledRegistry::Entry image_folder_entry();

}  // namespace tandem::datasets
