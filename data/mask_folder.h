// Image and mask folders: images below images/, and for each a PNG of the same name below masks/, whose
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
  Index channels = 3;                    // of the images: 3 or 1
  Index classes = 0;                     // 0: as many as class_names, values or the training masks say
  std::vector<std::string> class_names;  // in order; empty: numbers
  std::vector<Index> values;             // what stands in the files for each class; empty: its number
  Index ignore_index = kIgnored;         // what stands in the files for pixels that count for nothing
  Index image_size = 0;                  // side that images and masks are brought to; 0: they have one size
  bool any_size = false;                 // images differ in size, and the transforms see to it
  double test_fraction = 0.2;            // where the files have no test split
};

// What stands in files for which class: kIgnored where a pixel counts for nothing, kNoClass where it must not
// occur.
class MaskValues {
 public:
  static constexpr std::int16_t kNoClass = -1;
  // Throws UserError for values that are given twice, or that are ignored, too.
  MaskValues(const MaskFolderOptions& options, Index classes);
  std::int16_t operator[](std::uint8_t value) const { return classes_[value]; }

 private:
  std::array<std::int16_t, 256> classes_{};
};

class MaskFolder final : public Dataset {
 public:
  // `info` has the classes and, where all images have one size, that. Throws UserError when there are no
  // images in `folder`/images, or no mask to one of them.
  MaskFolder(const std::filesystem::path& folder, DatasetInfo info, const MaskValues& values,
             const ImageReading& reading = {});

  Index size() const override { return static_cast<Index>(images_.size()); }
  // Throws UserError naming the file: what cannot be decoded, a mask of another size than its image, a value
  // that is no class, an image of another size than the others.
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
// which test_fraction divides.
LabelledRegistry::Entry masks_entry();

}  // namespace tandem::datasets
