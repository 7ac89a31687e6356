// Suspicious labels and boxes in valid files.
#include "data/boxes/label_check.h"

#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoxClasses;
using datasets::BoxCorpus;
using datasets::label_warnings;
using datasets::wrong_num_classes;

namespace {

BoxClasses of_ids(const std::vector<std::int64_t>& ids) {
  BoxClasses classes;
  for (const std::int64_t id : ids) classes.add("c" + std::to_string(id), id);
  return classes;
}

BoxCorpus sound() {
  BoxCorpus corpus{.where = "made", .classes = of_ids({1, 2}), .images = {}, .tallies = {}};
  corpus.images = {{.objects = {{.box = {0, 0, 10, 10}, .label = 1, .id = 1},
                                {.box = {0, 0, 1, 1}, .label = 2, .id = 2}}}};
  return corpus;
}

std::string warning_of(const BoxCorpus& corpus) {
  const std::vector<std::string> warnings = label_warnings(corpus);
  REQUIRE(warnings.size() == 1);
  return warnings[0];
}

}  // namespace

TEST_CASE("outputs are the classes and the background", "[boxes]") {
  std::vector<std::int64_t> coco;
  for (std::int64_t id = 1; id <= 90; ++id)
    if (id % 9 != 0) coco.push_back(id);
  coco.back() = 90;
  const BoxClasses eighty = of_ids(coco);
  REQUIRE(eighty.count() == 80);
  CHECK(wrong_num_classes(eighty, 81).empty());
  CHECK(wrong_num_classes(eighty, 80) ==
        "model.num_classes is 80, the data have 80 classes: the background is counted, too; set it to 81");
  CHECK(wrong_num_classes(eighty, 91) ==
        "model.num_classes is 91, the data have 80 classes: labels are 1 to 80 without gaps, although the "
        "categories' ids go to 90; data.labels category_id uses the ids as labels; set it to 81");
  CHECK(wrong_num_classes(eighty, 90).find("uses the ids as labels; set it to 81") != std::string::npos);
  CHECK(wrong_num_classes(eighty, 82).find("the background is counted once; set it to 81") !=
        std::string::npos);
  CHECK(wrong_num_classes(eighty, 21, "model.outputs") ==
        "model.outputs is 21, the data have 80 classes: these are the classes of the data and the "
        "background; set it to "
        "81");
  const BoxClasses twenty = of_ids({1, 2, 3});
  CHECK(wrong_num_classes(twenty, 4).empty());
  CHECK(wrong_num_classes(twenty, 3).find("the background is counted, too; set it to 4") !=
        std::string::npos);
}

TEST_CASE("a corpus without a flaw has no warnings", "[boxes]") { CHECK(label_warnings(sound()).empty()); }

TEST_CASE("classes that are called as the background is, or alike", "[boxes]") {
  for (const char* name : {"background", "__background__", "_background_", "Background", "BG"}) {
    BoxCorpus corpus = sound();
    corpus.classes.names[2] = name;
    CHECK(warning_of(corpus).find(
              fmt::format("class 2 of the files is called \"{}\" and is learnt as an object", name)) !=
          std::string::npos);
    CHECK(warning_of(corpus).find("data.class_names, and set model.num_classes to 2") != std::string::npos);
  }
  for (const char* name : {"back ground noise", "big", "backgrounds", ""})
    CHECK_FALSE(datasets::means_background(name));
  BoxCorpus own = sound();
  own.classes.own_background = "_background_";
  CHECK(warning_of(own) ==
        "category 0, \"_background_\", means the background and is no class; set model.num_classes to 3, "
        "the "
        "classes and one background");
  BoxCorpus twice = sound();
  twice.classes.names[2] = "c1";
  CHECK(warning_of(twice) == "classes 1 and 2 are both called \"c1\" (categories 1 and 2)");
}

TEST_CASE("classes without boxes, normalised boxes, corners for sizes, and an annotation 0", "[boxes]") {
  BoxCorpus unused = sound();
  unused.images[0].objects[1].label = 1;
  CHECK(warning_of(unused) == "1 of the 2 classes have no training box: c2");
  unused = sound();
  unused.images[0].objects[1].crowd = true;
  CHECK(warning_of(unused) == "1 of the 2 classes have no training box: c2");
  BoxCorpus unit = sound();
  unit.images[0].objects[0].box = {0, 0, 0.5, 1};
  CHECK(warning_of(unit).find("all boxes lie within the first pixel") == 0);
  BoxCorpus corners = sound();
  corners.tallies.clipped.count = 1;
  CHECK(warning_of(corners).find("1 of 2 boxes cross the border of their image: if bbox has the corners") ==
        0);
  corners.images[0].objects.resize(10, corners.images[0].objects[1]);
  CHECK(label_warnings(corners).empty());
  BoxCorpus zero = sound();
  zero.images[0].objects[1].id = 0;
  CHECK(warning_of(zero).find("an annotation has the id 0") == 0);
}
