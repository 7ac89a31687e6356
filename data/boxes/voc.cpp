#include "data/boxes/voc.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/names.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "data/boxes/box_admission.h"
#include "data/boxes/voc_annotation.h"
#include "data/boxes/voc_lists.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxAnnotationBytes = std::uint64_t{64} << 20;

struct AnnotatedImage {
  BoxImage image;  // without objects
  std::string where;
  VocAnnotation annotation;
};

fs::path image_of(const fs::path& folder, const std::string& id) {
  for (const char* end : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"})
    if (const fs::path file = folder / "JPEGImages" / (id + end); files::kind_of(file) != files::Kind::absent)
      return file;
  return folder / "JPEGImages" / (id + ".jpg");
}

std::vector<AnnotatedImage> read_annotations(const std::vector<VocList>& lists) {
  std::vector<AnnotatedImage> images;
  std::unordered_map<std::string, std::string> places;
  for (const VocList& list : lists) {
    for (const auto& [id, place] : list.ids) {
      const auto [known, fresh] = places.emplace(id, place);
      require(fresh, place, "{} is in {}, too; an image belongs to one of the joined splits", printable(id),
              known->second);
      const fs::path file = list.folder / "Annotations" / (id + ".xml");
      require(files::kind_of(file) != files::Kind::absent, place, "{} has no annotation: there is no {}",
              printable(id), file.string());
      AnnotatedImage& image = images.emplace_back();
      image.where = file.string();
      image.annotation = parse_voc_annotation(files::read_text(file, kMaxAnnotationBytes), image.where);
      image.image = {.file = image_of(list.folder, id).string(),
                     .name = id,
                     .id = static_cast<std::int64_t>(images.size()),
                     .width = image.annotation.width,
                     .height = image.annotation.height,
                     .objects = {}};
    }
  }
  return images;
}

BoxClasses classes_of(const std::vector<AnnotatedImage>& images) {
  std::set<std::string> names;
  for (const AnnotatedImage& image : images)
    for (const VocObject& object : image.annotation.objects) names.insert(object.name);
  BoxClasses classes;
  for (const std::string& name : names) classes.add(name, classes.count() + 1);
  return classes;
}

class VocObjects {
 public:
  VocObjects(BoxCorpus& corpus, bool one_based)
      : corpus_(corpus), one_based_(one_based), admission_(corpus.tallies, refusals_) {
    for (std::size_t label = 1; label < corpus.classes.names.size(); ++label)
      labels_.emplace(corpus.classes.names[label], static_cast<Index>(label));
  }

  void add(BoxImage& image, const std::string& where, const std::vector<VocObject>& objects) {
    for (std::size_t i = 0; i < objects.size(); ++i)
      add(image, objects[i], where,
          fmt::format("object {} ({})", i + 1, shortened(printable(objects[i].name), 80)));
  }
  void finish() const { refusals_.finish(); }

 private:
  void add(BoxImage& image, const VocObject& from, const std::string& where, const std::string& which) {
    ++id_;
    const auto label = labels_.find(from.name);
    if (label == labels_.end()) {
      const auto& names = corpus_.classes.names;
      const std::vector<std::string> known(names.begin() + 1, names.end());
      refusals_.add(where, fmt::format("{}: its class is none of the {}: {}{}", which, known.size(),
                                       listed(known, 20), did_you_mean(from.name, known)));
      return;
    }
    const double first = one_based_ ? 1.0 : 0.0;
    if (one_based_ && (from.xmin == 0 || from.ymin == 0))
      tally(corpus_.tallies.at_zero, where, which, fmt::format("xmin {}, ymin {}", from.xmin, from.ymin));
    const Corners box{from.xmin - first, from.ymin - first, from.xmax, from.ymax};
    admission_.admit(image,
                     {.object = {.box = box, .label = label->second, .id = id_, .difficult = from.difficult},
                      .width = box.width(),
                      .height = box.height(),
                      .area = {}},
                     where, which);
  }

  BoxCorpus& corpus_;
  bool one_based_;
  Refusals refusals_;
  BoxAdmission admission_;
  std::unordered_map<std::string, Index> labels_;
  std::int64_t id_ = 0;
};

BoxClasses named_classes(const std::vector<std::string>& names) {
  BoxClasses classes;
  std::set<std::string> known;
  for (const std::string& name : names) {
    require(known.insert(name).second, "data.class_names", "has \"{}\" twice", name);
    require(!name.empty(), "data.class_names", "has an empty name, the {}th", known.size());
    classes.add(name, classes.count() + 1);
  }
  if (!names.empty() && means_background(names.front()))
    throw UserError("data.class_names",
                    fmt::format("begins with \"{}\"; the background is label 0 and not listed, remove it",
                                printable(names.front())));
  return classes;
}

// Numbers images consecutively across splits; `first`, the next free number, is advanced.
void number_on(BoxCorpus& corpus, std::int64_t& first) {
  for (BoxImage& image : corpus.images) image.id = first++;
}

BoxSplits open_voc(const VocOptions& own, const SetOptions& common) {
  require_path(common, "voc", "the folder with VOC2007 and VOC2012, or the one with VOCdevkit");
  const fs::path path = common.place();
  const files::Kind kind = files::kind_of(path);
  files::require_there(kind != files::Kind::absent, path.string(), "{}", files::no_folder(path));
  require(kind == files::Kind::folder, path.string(), "{}", files::no_folder(path));
  const fs::path devkit = path / "VOCdevkit";
  const fs::path root = files::kind_of(devkit) == files::Kind::folder ? devkit : path;
  BoxSplits splits;
  splits.train = read_voc(root, own.train, own.one_based, named_classes(own.class_names), "data.train");
  const BoxClasses& classes = splits.train.classes;
  require(classes.count() > 0, root.string(), "has no object in its training images");
  auto free = static_cast<std::int64_t>(splits.train.images.size()) + 1;
  if (own.test.empty()) {
    hold_out_test(splits, own.test_fraction, common.seed());
  } else {
    splits.test = read_voc(root, own.test, own.one_based, classes, "data.test");
    number_on(splits.test, free);
  }
  if (own.validation.empty()) return splits;
  splits.validation = read_voc(root, own.validation, own.one_based, classes, "data.validation");
  number_on(*splits.validation, free);
  return splits;
}

}  // namespace

BoxCorpus read_voc(const fs::path& root, const std::vector<std::string>& splits, bool one_based,
                   BoxClasses classes, const std::string& key) {
  require(!splits.empty(), key, "names no split, expected FOLDER/LIST, such as VOC2007/trainval");
  BoxCorpus corpus{.where = root.string(), .classes = {}, .images = {}, .tallies = {}};
  std::vector<VocList> lists;
  for (const std::string& split : splits) {
    lists.push_back(voc_list(root, split, key));
    for (const auto& [id, place] : lists.back().unlisted) tally(corpus.tallies.unlisted, place, id, "-1");
    for (const auto& [id, place] : lists.back().foreign) tally(corpus.tallies.foreign, place, id, "hidden");
  }
  std::vector<AnnotatedImage> images = read_annotations(lists);
  corpus.classes = classes.count() > 0 ? std::move(classes) : classes_of(images);
  VocObjects objects(corpus, one_based);
  for (AnnotatedImage& each : images) {
    corpus.images.push_back(std::move(each.image));
    objects.add(corpus.images.back(), each.where, each.annotation.objects);
  }
  objects.finish();
  return corpus;
}

BoxSetRegistry::Entry voc_entry() {
  using Options = VocOptions;
  return BoxSetRegistry::entry<Options>(
      "voc", "photographs with boxes in PASCAL VOC format: XML files, and lists of images",
      options::Describe<Options>()
          .key("train", &Options::train,
               "training split: FOLDER/LIST, such as VOC2007/trainval, or a folder with Annotations; several "
               "are joined")
          .key("validation", &Options::validation, "validation split; none: see validation_size")
          .key("test", &Options::test, "test split; none: see test_fraction")
          .key("test_fraction", &Options::test_fraction,
               "share of the training images kept for testing, if test is empty",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .key("class_names", &Options::class_names,
               "classes in the order of their labels, without the background; default: those of the training "
               "objects, sorted")
          .key("one_based", &Options::one_based,
               "the first pixel is 1 and xmax is the last pixel inside, as in VOC's own files; false: boxes "
               "count from 0 and end at xmax"),
      open_voc);
}

}  // namespace tandem::datasets
