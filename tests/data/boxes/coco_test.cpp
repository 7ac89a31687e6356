// COCO's instances as images with boxes.
#include "data/boxes/coco.h"

#include <limits>

#include "data/boxes/box_summary.h"
#include "data/boxes/label_check.h"
#include "tests/data/boxes/support.h"
#include "tests/golden/boxes.h"
#include "tests/support/box_files.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoxCorpus;
using datasets::coco_corpus;
using datasets::CocoFile;
using datasets::read_coco;

namespace {

CocoFile small() {
  return {.images = {{.id = 9, .file_name = "b/nine.jpg", .width = 100, .height = 80},
                     {.id = 0, .file_name = "zero.jpg", .width = 50, .height = 60}},
          .annotations = {{.id = 5, .image = 9, .category = 44, .bbox = {1, 2, 3, 4}},
                          {.id = 4, .image = 0, .category = 7, .bbox = {0, 0, 50, 60}, .area = 0.0}},
          .categories = {{.id = 44, .name = "dog"}, {.id = 7, .name = "cat"}}};
}

BoxCorpus corpus_of(const CocoFile& file, const datasets::BoxClasses& classes = {}) {
  return coco_corpus(file, "f.json", "images", classes);
}

}  // namespace

TEST_CASE("labels are ranks of the categories' ids, or the ids", "[boxes]") {
  const CocoFile file = small();
  CHECK(corpus_of(file).classes.names == std::vector<std::string>{"background", "cat", "dog"});
  const BoxCorpus by_id = coco_corpus(file, "f.json", "images", {}, datasets::CocoLabels::category_id);
  const datasets::BoxClasses& classes = by_id.classes;
  CHECK(classes.count() == 44);
  for (std::size_t label = 1; label <= 44; ++label) {
    CHECK(classes.ids[label] == static_cast<std::int64_t>(label));
    CHECK(classes.has(label) == (label == 7 || label == 44));
  }
  CHECK(classes.names[44] == "dog");
  CHECK(by_id.images[0].objects[0].label == 7);
  CHECK(by_id.images[1].objects[0].label == 44);
  // Labels of no class are no news, and no category of a file that is written.
  CHECK(datasets::label_warnings(by_id).empty());
  CHECK(datasets::summary_of(by_id).text(classes).ends_with("2 boxes: cat 1, dog 1"));
  CHECK(datasets::testing::coco_instances(by_id, "images").find("\"id\": 8") == std::string::npos);
  // A category that only a test split has is refused where an object has it, also where its id is a gap.
  CocoFile other = small();
  other.categories.push_back({.id = 8, .name = "cow"});
  CHECK(coco_corpus(other, "g.json", "images", classes).images.size() == 2);
  other.annotations[0].category = 8;
  CHECK_THROWS_WITH(coco_corpus(other, "g.json", "images", classes),
                    Catch::Contains("its category 8 is none of the training split's"));
  CocoFile far = small();
  far.categories[0].id = 123456789;
  CHECK_THROWS_WITH(
      coco_corpus(far, "f.json", "images", {}, datasets::CocoLabels::category_id),
      Catch::Contains("category of id 123456789, expected 1 to 100000 for ids as labels (data.labels)"));
  CocoFile nameless = small();
  nameless.categories[1].name.clear();
  CHECK_THROWS_WITH(corpus_of(nameless), Catch::Contains("category 7 has no name"));
}

TEST_CASE("instances are what pycocotools reads, in its order", "[boxes]") {
  const TempFolder folder;
  const BoxCorpus corpus = read_coco(write_text(folder / "i.json", golden::kInstances), folder.path());
  std::size_t i = 0;
  for (const datasets::BoxImage& image : corpus.images) {
    for (const datasets::BoxObject& object : image.objects) {
      REQUIRE(i < golden::kInstanceCases.size());
      const golden::InstanceCase& expected = golden::kInstanceCases[i++];
      INFO("annotation " << expected.id);
      CHECK(image.id == expected.image);
      CHECK(object.id == expected.id);
      CHECK(object.label == expected.label);
      CHECK(object.box == datasets::Corners{expected.x1, expected.y1, expected.x2, expected.y2});
      CHECK(object.area == expected.area);
      CHECK(object.crowd == expected.crowd);
      CHECK_FALSE(object.difficult);
    }
  }
  CHECK(i == golden::kInstanceCases.size());
  REQUIRE(corpus.images.size() == 3);
  CHECK(corpus.images[1].file == (folder / "val/000042.jpg").string());
  CHECK(corpus.images[1].name == "val/000042.jpg");
  CHECK(corpus.images[1].width == 320);
  CHECK(corpus.images[1].height == 100);
  CHECK(corpus.images[2].objects.empty());
  CHECK(corpus.classes.names == std::vector<std::string>{"background", "person", "cat", "toothbrush"});
  CHECK(corpus.classes.ids == std::vector<std::int64_t>{0, 1, 17, 90});
  CHECK(corpus.tallies.clipped.count == 0);
}

TEST_CASE("labels are ranks of ids, images ascend, areas are those of the file or of the box", "[boxes]") {
  const BoxCorpus corpus = corpus_of(small());
  CHECK(corpus.classes.names == std::vector<std::string>{"background", "cat", "dog"});
  CHECK(corpus.classes.ids == std::vector<std::int64_t>{0, 7, 44});
  REQUIRE(corpus.images.size() == 2);
  CHECK(corpus.images[0].id == 0);
  CHECK(objects_text(corpus.images[0]) == "1:[0, 0, 50, 60]");
  CHECK(corpus.images[0].objects[0].area == 0);
  CHECK(objects_text(corpus.images[1]) == "2:[1, 2, 4, 6]");
  CHECK(corpus.images[1].objects[0].area == 12);
  CHECK(corpus.images[1].file == "images/b/nine.jpg");
}

TEST_CASE("zero sizes are left out, borders cut, crowds kept for evaluation", "[boxes]") {
  CocoFile file = small();
  file.annotations = {{.id = 918, .image = 9, .category = 7, .bbox = {3, 4, 5, 0}, .area = 3.0},
                      {.id = 919, .image = 9, .category = 7, .bbox = {90, 70, 10.5, 10}},
                      {.id = 920, .image = 9, .category = 7, .bbox = {101, 70, 10, 10}},
                      {.id = 921, .image = 9, .category = 7, .bbox = {1, 1, 10, 10}, .crowd = true}};
  const BoxCorpus corpus = corpus_of(file);
  CHECK(objects_text(corpus.images[1]) == "1:[90, 70, 100, 80] 1:[1, 1, 11, 11]*");
  CHECK(corpus.images[1].objects[0].area == 100);
  CHECK(corpus.tallies.zero_area.first == "[f.json] annotation 918 of image 9: [3, 4, 8, 4]");
  CHECK(corpus.tallies.clipped.count == 1);
  CHECK(corpus.tallies.outside.count == 1);
}

TEST_CASE("a category 0 that is the background is no class, and no object is of it", "[boxes]") {
  CocoFile file = small();
  file.categories.push_back({.id = 0, .name = "_background_"});
  const BoxCorpus corpus = corpus_of(file);
  CHECK(corpus.classes.names == std::vector<std::string>{"background", "cat", "dog"});
  CHECK(corpus.classes.own_background == "_background_");
  file.annotations[1].category = 0;
  CHECK_FAILS(UserError, corpus_of(file),
              "[f.json] annotation 4 of image 0: it is of category 0, the background; remove it");
  // Any other category may have the id 0.
  file.categories.back().name = "emu";
  CHECK(corpus_of(file).classes.names == std::vector<std::string>{"background", "emu", "cat", "dog"});
  CHECK(objects_text(corpus_of(file).images[0]) == "1:[0, 0, 50, 60]");
}

TEST_CASE("ids that stand twice or are unknown are refused", "[boxes]") {
  const auto refused = [](const auto& change, const std::string& part) {
    CocoFile file = small();
    change(file);
    CHECK_FAILS(UserError, corpus_of(file), part);
  };
  refused([](CocoFile& f) { f.images[1].id = 9; },
          "[f.json] image id 9 stands twice, for b/nine.jpg and zero.jpg");
  refused([](CocoFile& f) { f.annotations[1].id = 5; },
          "[f.json] annotation 5 of image 0: its id stands twice");
  refused([](CocoFile& f) { f.categories[1].id = 44; },
          "[f.json] category id 44 stands twice, the second time for \"cat\"");
  refused([](CocoFile& f) { f.annotations[0].image = 8; },
          "[f.json] annotation 5 of image 8: no image of the file has that id");
  refused([](CocoFile& f) { f.annotations[0].category = 45; },
          "[f.json] annotation 5 of image 9: no category of the file has its category_id, 45");
  refused([](CocoFile& f) { f.annotations[0].bbox[3] = -3; },
          "[f.json] annotation 5 of image 9: its box is 3 wide and -3 high; neither may be negative");
  refused([](CocoFile& f) { f.annotations[0].area = -1.0; }, "annotation 5 of image 9: its area is -1");
  refused([](CocoFile& f) { f.annotations[0].bbox[0] = HUGE_VAL; }, "is not finite");
  refused(
      [](CocoFile& f) {
        f.annotations[0].bbox[2] = -1;
        f.annotations[1].category = 45;
      },
      "annotation 5 of image 9: its box is -1 wide and 4 high; neither may be negative; 1 more is refused");
  refused([](CocoFile& f) { f.images[0].file_name = std::string("a\0b", 3); },
          "image 9 has the file_name \"a\\u0000b\", which is no valid path");
  refused([](CocoFile& f) { f.images.clear(); }, "[f.json] has no image");
  refused([](CocoFile& f) { f.categories.clear(); }, "[f.json] has no category");
}

TEST_CASE("splits share their categories", "[boxes]") {
  const datasets::BoxClasses classes = corpus_of(small()).classes;
  CocoFile test = small();
  test.categories = {{.id = 7, .name = "cat"}, {.id = 44, .name = "dog"}, {.id = 1, .name = "unused"}};
  const BoxCorpus corpus = corpus_of(test, classes);
  CHECK(corpus.classes == classes);
  CHECK(objects_text(corpus.images[1]) == "2:[1, 2, 4, 6]");
  test.annotations[0].category = 1;
  CHECK_FAILS(UserError, corpus_of(test, classes),
              "[f.json] annotation 5 of image 9: its category 1 is none of the training split's");
  test.annotations[0].category = 7;
  test.categories[0].name = "dogs";
  CHECK_FAILS(UserError, corpus_of(test, classes),
              "[f.json] category 7 is \"dogs\", but \"cat\" in the training split");
}
