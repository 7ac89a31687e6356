// Image folders: one subfolder per class, JPEG and PNG files in it at any depth. The classes are the
// subfolders' names in byte order.
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
  // `class_names` fixes the classes (of a test split: those of the training split); empty takes the
  // subfolders'. Throws UserError when there is no class, a class without images, or a subfolder that is not
  // a class; and, where `check_files` says so, when something is called as an image is and no regular file:
  // otherwise that is an error when it is read. `reading`: of images.
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
  double test_fraction = 0.2;  // of every class, where there are no folders for the splits
  Index image_size = 0;        // side that images are brought to; 0: 224
  Index channels = 0;          // 3 or 1; 0: 3
};
// `path` is a folder with train/ and test/ (or val/), or with one subfolder per class.
LabelledRegistry::Entry image_folder_entry();

}  // namespace tandem::datasets
