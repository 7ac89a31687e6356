// COCO's instances: a JSON file of images, boxes and categories for each split (Lin et al. 2014, Microsoft
// COCO: Common Objects in Context), and sets of others in that form.
#pragma once

#include <filesystem>
#include <string>

#include "data/boxes/box_registry.h"
#include "data/boxes/coco_file.h"

namespace tandem::datasets {

// Below data.path.
struct CocoPaths {
  std::string annotations, images;  // the JSON file, and the folder that its file_names are of
  static const options::Schema& schema();
};

// What the labels are: places in the order of the categories' ids, 1 to C whatever gaps these have, or the
// ids themselves, of which some may be of no category. COCO's 80 categories have ids up to 90; torchvision's
// detectors have an output for each of these.
enum class CocoLabels : std::uint8_t { rank, category_id };

struct CocoOptions {
  CocoPaths train{"annotations/instances_train2017.json", "train2017"};
  std::optional<CocoPaths> validation{};
  std::optional<CocoPaths> test{{"annotations/instances_val2017.json", "val2017"}};
  double test_fraction = 0.2;  // of the training images, where there is no `test`
  CocoLabels labels = CocoLabels::rank;
};

// A category of id 0 that is called as the background is none of the classes; an object of it is refused, as
// one of label 0. Throws UserError for categories with the same id, and for ids that are no labels.
BoxClasses coco_classes(const CocoFile& file, const std::string& where, CocoLabels labels = CocoLabels::rank);

// Images ascending by id, their objects in the order of the file, [x, y, x + width, y + height]. `classes`
// of another split, or of none: the file's own. Throws UserError naming the file, ids and values: an id of
// images, annotations or categories that stands twice, an unknown image or category, a category that is
// another one in `classes`, a file_name that cannot be one, and boxes that are refused
// (data/boxes/box_admission.h).
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
