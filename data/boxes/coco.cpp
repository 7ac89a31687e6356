#include "data/boxes/coco.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/printable.h"
#include "data/boxes/box_admission.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kHighestLabel = 100000;
constexpr Index kNone = -1;  // label of a category that is missing in another split

bool is_own_background(const CocoCategory& category) {
  return category.id == 0 && means_background(category.name);
}

// Labels among `classes` of the categories of `file`, by id.
std::unordered_map<std::int64_t, Index> labels_of(const CocoFile& file, const BoxClasses& classes,
                                                  const std::string& where) {
  std::unordered_map<std::int64_t, Index> labels;
  for (const CocoCategory& category : file.categories) {
    const auto found = std::find(classes.ids.begin() + 1, classes.ids.end(), category.id);
    const auto label = static_cast<std::size_t>(found - classes.ids.begin());
    if (is_own_background(category)) {
      labels.emplace(category.id, 0);
    } else if (found == classes.ids.end() || !classes.has(label)) {
      labels.emplace(category.id, kNone);
    } else {
      require(classes.names[label] == category.name, where,
              "category {} is \"{}\", but \"{}\" in the training split; the splits need the same categories",
              category.id, shortened(printable(category.name), 80),
              shortened(printable(classes.names[label]), 80));
      labels.emplace(category.id, static_cast<Index>(label));
    }
  }
  return labels;
}

std::vector<BoxImage> images_of(const CocoFile& file, const std::string& where, const fs::path& folder) {
  std::vector<BoxImage> images;
  images.reserve(file.images.size());
  for (const CocoImage& image : file.images) {
    require(image.file_name.find('\0') == std::string::npos, where,
            "image {} has the file_name \"{}\", which is no valid path", image.id,
            shortened(printable(image.file_name), 80));
    images.push_back({.file = (folder / image.file_name).string(),
                      .name = image.file_name,
                      .id = image.id,
                      .width = image.width,
                      .height = image.height,
                      .objects = {}});
  }
  std::ranges::stable_sort(images, {}, &BoxImage::id);
  const auto twice = std::ranges::adjacent_find(images, {}, &BoxImage::id);
  if (twice != images.end())
    throw UserError(where, fmt::format("image id {} stands twice, for {} and {}", twice->id,
                                       printable(twice->name), printable(std::next(twice)->name)));
  return images;
}

class CocoObjects {
 public:
  CocoObjects(BoxCorpus& corpus, std::unordered_map<std::int64_t, Index> labels)
      : corpus_(corpus), labels_(std::move(labels)), admission_(corpus.tallies, refusals_) {
    for (std::size_t i = 0; i < corpus.images.size(); ++i) images_.emplace(corpus.images[i].id, i);
  }

  void add(const CocoAnnotation& from) {
    const auto which = fmt::format("annotation {} of image {}", from.id, from.image);
    const auto image = images_.find(from.image);
    const auto label = labels_.find(from.category);
    const auto refuse = [&](const std::string& why) {
      refusals_.add(corpus_.where, fmt::format("{}: {}", which, why));
    };
    if (!ids_.insert(from.id).second) return refuse("its id stands twice");
    if (image == images_.end()) return refuse("no image of the file has that id");
    if (label == labels_.end())
      return refuse(fmt::format("no category of the file has its category_id, {}", from.category));
    if (label->second == 0) return refuse("it is of category 0, the background; remove it");
    if (label->second == kNone)
      return refuse(fmt::format("its category {} is none of the training split's", from.category));
    const auto [x, y, width, height] = from.bbox;
    admission_.admit(corpus_.images[image->second],
                     {.object = {.box = {x, y, x + width, y + height},
                                 .label = label->second,
                                 .id = from.id,
                                 .crowd = from.crowd},
                      .width = width,
                      .height = height,
                      .area = from.area},
                     corpus_.where, which);
  }
  void finish() const { refusals_.finish(); }

 private:
  BoxCorpus& corpus_;
  std::unordered_map<std::int64_t, Index> labels_;
  std::unordered_map<std::int64_t, std::size_t> images_;
  std::unordered_set<std::int64_t> ids_;
  Refusals refusals_;
  BoxAdmission admission_;
};

// Adds labels without a class up to `id`.
void leave_gap(BoxClasses& classes, std::int64_t id, const std::string& where) {
  require(id > 0 && id <= kHighestLabel, where,
          "has a category of id {}, expected 1 to {} for ids as labels (data.labels)", id, kHighestLabel);
  while (classes.count() + 1 < id) classes.add("", classes.count() + 1);
}

BoxSplits open_coco(const CocoOptions& own, const SetOptions& common) {
  require_path(common, "coco", "the folder with annotations/ and the folders of images");
  const fs::path root = common.place();
  const files::Kind kind = files::kind_of(root);
  files::require_there(kind != files::Kind::absent, root.string(), "{}", files::no_folder(root));
  require(kind == files::Kind::folder, root.string(), "{}", files::no_folder(root));
  const auto read = [&](const CocoPaths& paths, const BoxClasses& classes) {
    return read_coco(root / paths.annotations, root / paths.images, classes, own.labels);
  };
  BoxSplits splits;
  splits.train = read(own.train, {});
  if (own.test) {
    splits.test = read(*own.test, splits.train.classes);
  } else {
    hold_out_test(splits, own.test_fraction, common.seed());
  }
  if (own.validation) splits.validation = read(*own.validation, splits.train.classes);
  return splits;
}

}  // namespace

BoxClasses coco_classes(const CocoFile& file, const std::string& where, CocoLabels labels) {
  std::vector<CocoCategory> categories = file.categories;
  std::ranges::stable_sort(categories, {}, &CocoCategory::id);
  BoxClasses classes;
  for (std::size_t i = 0; i < categories.size(); ++i) {
    const CocoCategory& category = categories[i];
    require(i == 0 || categories[i - 1].id != category.id, where,
            "category id {} stands twice, the second time for \"{}\"", category.id,
            shortened(printable(category.name), 80));
    require(!category.name.empty(), where, "category {} has no name", category.id);
    if (is_own_background(category)) {
      classes.own_background = category.name;
    } else {
      if (labels == CocoLabels::category_id) leave_gap(classes, category.id, where);
      classes.add(category.name, category.id);
    }
  }
  require(classes.count() > 0, where, "has no category");
  return classes;
}

BoxCorpus coco_corpus(const CocoFile& file, const std::string& where, const fs::path& images,
                      const BoxClasses& classes, CocoLabels labels) {
  BoxClasses own = coco_classes(file, where, labels);
  BoxCorpus corpus{.where = where,
                   .classes = classes.count() > 0 ? classes : std::move(own),
                   .images = images_of(file, where, images),
                   .tallies = {}};
  require(!corpus.images.empty(), where, "has no image");
  CocoObjects objects(corpus, labels_of(file, corpus.classes, where));
  for (const CocoAnnotation& annotation : file.annotations) objects.add(annotation);
  objects.finish();
  return corpus;
}

BoxCorpus read_coco(const fs::path& annotations, const fs::path& images, const BoxClasses& classes,
                    CocoLabels labels) {
  return coco_corpus(read_coco_file(annotations), annotations.string(), images, classes, labels);
}

const options::Schema& CocoPaths::schema() {
  static const options::Schema schema =
      options::Describe<CocoPaths>()
          .key("annotations", &CocoPaths::annotations, "JSON file, relative to data.path", {.required = true})
          .key("images", &CocoPaths::images, "folder of its images, relative to data.path; \"\": data.path");
  return schema;
}

BoxSetRegistry::Entry coco_entry() {
  using Options = CocoOptions;
  return BoxSetRegistry::entry<Options>(
      "coco", "photographs with boxes in COCO format: a JSON file of instances for each split",
      options::Describe<Options>()
          .key("train", &Options::train, "training split")
          .key("validation", &Options::validation, "validation split; null: see validation_size")
          .key("test", &Options::test, "test split; null: see test_fraction")
          .key("test_fraction", &Options::test_fraction,
               "share of the training images kept for testing, if test is null",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .key("labels", &Options::labels,
               "rank: labels are consecutive, in the order of the categories' ids; category_id: the ids are "
               "the labels, as in torchvision's detectors"),
      open_coco);
}

}  // namespace tandem::datasets
