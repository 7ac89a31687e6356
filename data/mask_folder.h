// Image and mask folders: images below images/, and below masks/ a PNG of the same name for each, whose
// palette indices or grey values are the classes of the pixels.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_file.h"
#include "data/labelled_set.h"
#include "data/passed_over.h"

namespace tandem::datasets {

struct MaskFolderOptions {
  Index channels = 3;  // of the images: 3 or 1
  Index classes = 0;   // 0: the number of class_names, of values, or of classes in the training masks
  std::vector<std::string> class_names;  // in order; empty: numbers
  std::vector<Index> values;             // mask value of each class; empty: its number
  Index ignore_index = kIgnored;         // mask value of pixels that do not count
  Index image_size = 0;                  // side to which images and masks are resized; 0: all have one size
  bool any_size = false;                 // images differ in size, and transforms resize them
  double test_fraction = 0.2;            // if the files have no test split
};

// Classes of mask values: kIgnored for pixels that do not count, kNoClass for invalid values.
class MaskValues {
 public:
  static constexpr std::int16_t kNoClass = -1;
  // Throws UserError for a value that is given twice, or also ignored.
  MaskValues(const MaskFolderOptions& options, Index classes);
  std::int16_t operator[](std::uint8_t value) const { return classes_[value]; }

 private:
  std::array<std::int16_t, 256> classes_{};
};

class MaskFolder final : public Dataset {
 public:
  // `info` has the classes and, if all images have one size, the size. Throws UserError when `folder`/images
  // is empty or an image lacks a mask.
  MaskFolder(const std::filesystem::path& folder, DatasetInfo info, const MaskValues& values,
             const ImageReading& reading = {});

  Index size() const override { return static_cast<Index>(images_.size()); }
  // Throws UserError that names the file: an undecodable file, a mask or an image of a wrong size, a value
  // that is no class.
  Sample get(Index index) const override;
  bool decodes() const override { return true; }
  const PassedOver& passed_over() const { return passed_over_; }

 private:
  std::vector<std::filesystem::path> images_, masks_;
  MaskValues values_;
  PassedOver passed_over_;
  ImageReading reading_;
};

// data.path has train/ and test/ (or val/), each with images/ and masks/; or images/ and masks/ themselves,
// split by test_fraction.
LabelledRegistry::Entry masks_entry();

}  // namespace tandem::datasets
