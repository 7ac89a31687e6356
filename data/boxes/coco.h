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

struct CocoOptions {
  CocoPaths train{"annotations/instances_train2017.json", "train2017"};
  std::optional<CocoPaths> validation{};
  CocoPaths test{"annotations/instances_val2017.json", "val2017"};
};

// Labels 1 to C by rank of the categories' ids, whatever gaps these have. A category of id 0 that is called
// as the background is none of them; an object of it is refused, as one of label 0.
BoxClasses coco_classes(const CocoFile& file, const std::string& where);

// Images ascending by id, their objects in the order of the file, [x, y, x + width, y + height]. `classes`
// of another split, or of none: the file's own. Throws UserError naming the file, ids and values: an id of
// images, annotations or categories that stands twice, an unknown image or category, a category that is
// another one in `classes`, a file_name that cannot be one, and boxes that are refused
// (data/boxes/box_admission.h).
BoxCorpus coco_corpus(const CocoFile& file, const std::string& where, const std::filesystem::path& images,
                      const BoxClasses& classes = {});

BoxCorpus read_coco(const std::filesystem::path& annotations, const std::filesystem::path& images,
                    const BoxClasses& classes = {});

BoxSetFamily::Entry coco_entry();

}  // namespace tandem::datasets
