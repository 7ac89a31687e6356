// Box sets by name: splits, sizes, notes.
#include "data/boxes/box_registry.h"

#include <algorithm>
#include <set>

#include "data/boxes/box_summary.h"
#include "data/boxes/coco.h"
#include "data/boxes/voc.h"
#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoxCorpus;
using datasets::BoxSplits;
using datasets::open_box_set;
using datasets::SetOptions;

namespace {

using Names = std::vector<std::string>;

// VOCdevkit/VOC2007 with `count` images 0, 1, …, each of one cat, those at even places of a difficult dog,
// too.
class VocSet {
 public:
  explicit VocSet(int count) {
    std::string train, test;
    for (int i = 0; i < count; ++i) {
      const std::string id = std::to_string(i);
      write_text(
          year() / "Annotations" / (id + ".xml"),
          voc_xml(voc_object("cat", "1", "2", "30", "40") +
                  (i % 2 == 0 ? voc_object("dog", "1", "1", "9", "9", "<difficult>1</difficult>") : "")));
      write_text(year() / "JPEGImages" / (id + ".jpg"), "pixels");
      (i < count - 2 ? train : test) += id + "\n";
    }
    list("trainval", train);
    list("test", test);
  }
  void list(const std::string& name, const std::string& text) const {
    write_text(year() / "ImageSets/Main" / (name + ".txt"), text);
  }
  std::filesystem::path year() const { return folder / "VOCdevkit/VOC2007"; }
  SetOptions at() const { return {.path = folder.path().string()}; }
  BoxSplits open(const SetOptions& common, options::Given own = {}) const {
    own.push_back({"train", Names{"VOC2007/trainval"}});
    return open_box_set("voc", common, own);
  }
  TempFolder folder;
};

std::set<std::string> names_of(const BoxCorpus& corpus) {
  std::set<std::string> names;
  for (const datasets::BoxImage& image : corpus.images) names.insert(image.name);
  return names;
}

bool has_note(const BoxSplits& splits, const std::string& part) {
  return std::ranges::any_of(splits.notes,
                             [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

// Below the folder: train.json and test.json of images a.jpg (100x80), which is there.
class CocoSet {
 public:
  CocoSet(const std::string& train, const std::string& test) {
    write_text(folder / "train.json", coco_json(train));
    write_text(folder / "test.json", coco_json(test));
    write_text(folder / "a.jpg", "pixels");
  }
  BoxSplits open(datasets::MissingImages missing = datasets::MissingImages::error) const {
    const auto split = [](const char* name) { return options::Given{{"annotations", name}, {"images", ""}}; };
    return open_box_set({.set = options::Choice<datasets::box_sets>(
                             "coco", {{"train", split("train.json")}, {"test", split("test.json")}}),
                         .common = {.path = folder.path().string()},
                         .missing = missing});
  }
  TempFolder folder;
};

}  // namespace

TEST_CASE("VOC by name, with VOCdevkit below the path", "[boxes]") {
  const VocSet set(6);
  const BoxSplits splits = set.open(set.at());
  CHECK(names_of(splits.train) == std::set<std::string>{"0", "1", "2", "3"});
  CHECK(names_of(splits.test) == std::set<std::string>{"4", "5"});
  CHECK_FALSE(splits.validation.has_value());
  CHECK(splits.notes == Names{"training: 4 images; 6 boxes: cat 4, dog 2; 2 difficult",
                              "test: 2 images; 3 boxes: cat 2, dog 1; 1 difficult"});
  CHECK(datasets::box_sets().names() == Names{"voc", "coco"});
}

TEST_CASE("difficult objects are dropped in training alone", "[boxes]") {
  const VocSet set(6);
  datasets::BoxSetOptions options{
      .set = options::Choice<datasets::box_sets>("voc", {{"train", Names{"VOC2007/trainval"}}}),
      .common = set.at(),
      .difficult = datasets::Difficult::drop};
  options.common.validation_size = 1;
  const BoxSplits splits = open_box_set(options);
  CHECK(summary_of(splits.train).difficult == 0);
  CHECK(summary_of(splits.test).difficult == 1);
  const Index of_validation = summary_of(*splits.validation).difficult;
  CHECK(splits.train.tallies.difficult.count + of_validation == 2);
  CHECK(has_note(splits, "left out of training (data.difficult)"));
}

TEST_CASE("validation images are drawn from the training split, sizes evenly", "[boxes]") {
  const VocSet set(12);
  SetOptions common = set.at();
  common.validation_size = 3;
  common.test_size = 1;
  const BoxSplits splits = set.open(common);
  REQUIRE(splits.validation.has_value());
  CHECK(splits.train.images.size() == 7);
  CHECK(splits.validation->images.size() == 3);
  CHECK(splits.test.images.size() == 1);
  std::set<std::string> all = names_of(splits.train);
  all.merge(names_of(*splits.validation));
  CHECK(all.size() == 10);
  CHECK(splits.validation->classes == splits.train.classes);
  CHECK(std::ranges::is_sorted(splits.train.images, {}, &datasets::BoxImage::id));
  common.split_seed = 1;
  CHECK(names_of(*set.open(common).validation) != names_of(*splits.validation));
  common.validation_size = 10;
  CHECK_FAILS(UserError, set.open(common), "[data.validation_size] is 10, the training split has 10 images");
  common.validation_size = 0;
  common.train_size = 4;
  CHECK(set.open(common).train.images.size() == 4);
}

TEST_CASE("a list of its own for validation; images of two splits are told", "[boxes]") {
  const VocSet set(6);
  set.list("val", "1\n5\n");
  const BoxSplits splits = set.open(set.at(), {{"validation", Names{"VOC2007/val"}}});
  CHECK(names_of(*splits.validation) == std::set<std::string>{"1", "5"});
  CHECK(has_note(splits,
                 "validation: 1 of its images are also in the training split, which makes its metrics too "
                 "good; the first: "));
  CHECK(has_note(splits, "validation: 2 images"));
  CHECK_FALSE(has_note(splits, "test: 1 of its images"));
}

TEST_CASE("notes can be shown, whatever names have", "[boxes]") {
  const VocSet set(6);
  write_text(set.year() / "Annotations/0.xml", voc_xml(voc_object("a&#27;[31mb", "1", "2", "30", "40")));
  CHECK(has_note(set.open(set.at()), "a\\u001b[31mb 1"));
}

TEST_CASE("classes in an order of one's own; the background is not listed", "[boxes]") {
  const VocSet set(6);
  CHECK(set.open(set.at(), {{"class_names", Names{"dog", "cat"}}}).train.classes.names ==
        Names{"background", "dog", "cat"});
  CHECK_FAILS(UserError, set.open(set.at(), {{"class_names", Names{"dog"}}}),
              "its class is none of the 1: dog");
  CHECK_FAILS(UserError, set.open(set.at(), {{"class_names", Names{"dog", "cat", "dog"}}}),
              "[data.class_names] has \"dog\" twice");
  CHECK_FAILS(UserError, set.open(set.at(), {{"class_names", Names{"dog", ""}}}),
              "[data.class_names] has an empty name");
  CHECK_FAILS(UserError, set.open(set.at(), {{"class_names", Names{"__background__", "cat", "dog"}}}),
              "[data.class_names] begins with \"__background__\"; the background is label 0");
  CHECK(has_note(set.open(set.at(), {{"class_names", Names{"dog", "cat", "background"}}}),
                 "class 3 of the files is called \"background\""));
}

TEST_CASE("COCO by name: crowds are evaluated and not learnt, warnings are notes", "[boxes]") {
  const CocoSet set(
      coco_annotation(0, "[1,2,3,4]") + "," + coco_annotation(2, "[0,0,50,50]", ", \"iscrowd\": 1"),
      coco_annotation(2, "[0,0,50,50]", ", \"iscrowd\": 1"));
  const BoxSplits splits = set.open();
  CHECK(objects_text(splits.train.images[0]) == "2:[1, 2, 4, 6]");
  CHECK(objects_text(splits.test.images[0]) == "2:[0, 0, 50, 50]*");
  CHECK(has_note(splits,
                 "training: 1 crowd left out of training; it is: [a.jpg] annotation 2: [0, 0, 50, 50]"));
  CHECK(has_note(splits, "1 of the 2 classes have no training box: cat"));
  CHECK(has_note(splits, "an annotation has the id 0"));
  CHECK(has_note(splits, "test: 1 of its images are also in the training split"));
}

TEST_CASE("a set without a test split is divided, always alike", "[boxes]") {
  const VocSet set(6);
  const auto divided = [&](Index seed) {
    datasets::SetOptions common = set.at();
    common.split_seed = seed;
    return datasets::open_box_set("voc", common,
                                  {{"train", Names{"VOC2007/trainval"}},
                                   {"test", options::Value(std::vector<std::string>{})},
                                   {"test_fraction", 0.5}});
  };
  const BoxSplits splits = divided(0);
  std::set<std::string> all = names_of(splits.train), test = names_of(splits.test);
  CHECK(all.size() == 2);
  CHECK(test.size() == 2);
  all.merge(test);
  CHECK(all == std::set<std::string>{"0", "1", "2", "3"});
  CHECK(names_of(divided(0).test) == names_of(splits.test));
  CHECK(splits.test.classes.names == splits.train.classes.names);

  const TempFolder folder;
  std::string images, annotations;
  for (int i = 0; i < 5; ++i) {
    write_text(folder / fmt::format("{}.jpg", i), "pixels");
    images += fmt::format(R"({}{{"id": {}, "file_name": "{}.jpg", "width": 100, "height": 80}})",
                          i ? "," : "", i, i);
    annotations += fmt::format(R"({}{{"id": {}, "image_id": {}, "category_id": 1, "bbox": [0, 0, 9, 9]}})",
                               i ? "," : "", i + 1, i);
  }
  write_text(
      folder / "all.json",
      fmt::format(R"({{"images": [{}], "annotations": [{}], "categories": [{{"id": 1, "name": "cat"}}]}})",
                  images, annotations));
  const BoxSplits coco = datasets::open_box_set(
      "coco", {.path = folder.path().string(), .validation_size = 1},
      {{"train", options::Given{{"annotations", "all.json"}, {"images", ""}}}, {"test", options::Value()}});
  CHECK(coco.train.images.size() == 3);
  CHECK(coco.validation.value().images.size() == 1);
  CHECK(coco.test.images.size() == 1);
  CHECK(coco.test.images[0].objects.size() == 1);
}

TEST_CASE("keys of a configuration, which differ by set", "[boxes]") {
  using datasets::BoxSetOptions;
  const auto bound = [](const options::Given& given) {
    options::Record record = options::bound("data", BoxSetOptions::schema(), given);
    return *static_cast<const BoxSetOptions*>(record.data());
  };
  const BoxSetOptions coco = bound({{"name", "coco"},
                                    {"path", "x"},
                                    {"missing", "skip"},
                                    {"train", options::Given{{"annotations", "a.json"}, {"images", "b"}}}});
  CHECK(coco.missing == datasets::MissingImages::skip);
  CHECK(coco.difficult == datasets::Difficult::keep);
  CHECK(coco.set.as<datasets::CocoOptions>().train.annotations == "a.json");
  CHECK(coco.set.as<datasets::CocoOptions>().test.value().images == "val2017");
  CHECK_FALSE(coco.set.as<datasets::CocoOptions>().validation.has_value());
  const BoxSetOptions voc = bound({{"name", "voc"},
                                   {"train", Names{"VOC2007/train"}},
                                   {"difficult", "drop"},
                                   {"one_based", false},
                                   {"validation_size", 5}});
  CHECK(voc.difficult == datasets::Difficult::drop);
  CHECK(voc.common.validation_size == 5);
  CHECK(voc.set.as<datasets::VocOptions>().train == Names{"VOC2007/train"});
  CHECK(voc.set.as<datasets::VocOptions>().test == Names{"VOC2007/test"});
  CHECK_FALSE(voc.set.as<datasets::VocOptions>().one_based);
  CHECK_FAILS(UserError, bound({{"name", "coco"}, {"one_based", false}}), "one_based");
  CHECK_FAILS(UserError, bound({{"name", "coco"}, {"train", options::Given{{"images", "b"}}}}),
              "annotations");
  CHECK_FAILS(UserError, bound({{"name", "voc"}, {"difficult", "yes"}}), "difficult");
  CHECK_FAILS(UserError, bound({{"name", "voc"}, {"train", 7}}), "train");
}

TEST_CASE("errors of a whole set name the key or the path", "[boxes]") {
  const CocoSet crowds(coco_annotation(2, "[0,0,50,50]", ", \"iscrowd\": 1"), "");
  CHECK_FAILS(UserError, crowds.open(), "train.json] has no box to learn from");
  const CocoSet set(coco_annotation(1, "[0,0,50,50]"), "");
  std::filesystem::remove(set.folder / "a.jpg");
  CHECK_FAILS(UserError, set.open(), "train.json] lists 1 images without a file");
  CHECK_FAILS(UserError, set.open(datasets::MissingImages::skip),
              "train.json] none of its 1 images has a file");
  CHECK_FAILS(UserError, open_box_set("coco", {}), "[data.path] coco needs a path: ");
  CHECK_FAILS(UserError, open_box_set("voc", {}), "[data.path] voc needs a path: ");
  CHECK_FAILS(UserError, open_box_set("coco", {.path = "/no/such"}),
              "[data.path] /no/such: there is no such folder");
  CHECK_FAILS(UserError, open_box_set("voc", {.path = "/no/such"}),
              "[data.path] /no/such: there is no such folder");
  CHECK_FAILS(UserError, open_box_set("cocoa", {.path = "x"}), "did you mean \"coco\"?");
  const VocSet voc(6);
  CHECK_FAILS(UserError, open_box_set("voc", voc.at()),
              "[data.train] \"VOC2012/trainval\" is neither a list, ");
  voc.list("trainval", "1\n");
  write_text(voc.year() / "Annotations/1.xml", voc_xml(""));
  CHECK_FAILS(UserError, voc.open(voc.at()), "has no object in its training images");
}
