// COCO instances: a JSON file of images, boxes and categories for each split (Lin et al. 2014, Microsoft
// COCO: Common Objects in Context), and data sets in that format.
#pragma once

#include <filesystem>
#include <string>

#include "data/boxes/box_registry.h"
#include "data/boxes/coco_file.h"

namespace tandem::datasets {

// Relative to data.path.
struct CocoPaths {
  std::string annotations, images;  // JSON file, and the folder of its images
  static const options::Schema& schema();
};

// Labels of categories: the rank of the id, 1 to C without gaps, or the id itself, which may leave labels
// without a category. COCO's 80 categories have ids up to 90, and torchvision's detectors have an output for
// each.
enum class CocoLabels : std::uint8_t { rank, category_id };

struct CocoOptions {
  CocoPaths train{"annotations/instances_train2017.json", "train2017"};
  std::optional<CocoPaths> validation{};
  std::optional<CocoPaths> test{{"annotations/instances_val2017.json", "val2017"}};
  double test_fraction = 0.2;  // of the training images, if there is no `test`
  CocoLabels labels = CocoLabels::rank;
};

// A category of id 0 with a name of the background is no class, and its objects are refused. Throws UserError
// for repeated ids and ids that are no labels.
BoxClasses coco_classes(const CocoFile& file, const std::string& where, CocoLabels labels = CocoLabels::rank);

// Images ascending by id, objects in the order of the file, boxes [x, y, x + width, y + height]. `classes`:
// those of another split; empty: the file's own. Throws UserError that names the file, ids and values: a
// repeated id of an image, annotation or category, an unknown image or category, a category that differs from
// `classes`, an invalid file_name, and refused boxes (data/boxes/box_admission.h).
BoxCorpus coco_corpus(const CocoFile& file, const std::string& where, const std::filesystem::path& images,
                      const BoxClasses& classes = {}, CocoLabels labels = CocoLabels::rank);

BoxCorpus read_coco(const std::filesystem::path& annotations, const std::filesystem::path& images,
                    const BoxClasses& classes = {}, CocoLabels labels = CocoLabels::rank);

BoxSetRegistry::Entry coco_entry();

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::CocoLabels> {
  static constexpr std::array values{"rank", "category_id"};
};
