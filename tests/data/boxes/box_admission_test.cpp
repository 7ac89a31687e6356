// Boxes that are refused, left out, clipped, or kept.
#include "data/boxes/box_admission.h"

#include <limits>

#include "data/boxes/box_images.h"
#include "data/boxes/box_summary.h"
#include "tests/data/boxes/support.h"

using namespace tandem;
using namespace tandem::test;

using datasets::BoxAdmission;
using datasets::BoxCorpus;
using datasets::BoxImage;
using datasets::Corners;
using datasets::FileBox;
using datasets::Refusals;

namespace {

FileBox file_box(const Corners& box, std::optional<double> area = {}) {
  return {.object = {.box = box, .label = 1, .id = 7},
          .width = box.width(),
          .height = box.height(),
          .area = area};
}

struct Trial {
  BoxImage image{.file = "f.jpg", .name = "f", .width = 100, .height = 80};
  datasets::BoxTallies tallies;
  Refusals refusals;

  void admit(const FileBox& box) {
    BoxAdmission(tallies, refusals).admit(image, box, "file", "annotation 7");
  }
  std::string refusal() const {
    try {
      refusals.finish();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

std::string refusal_of(const FileBox& box) {
  Trial trial;
  trial.admit(box);
  CHECK(trial.image.objects.empty());
  CHECK(trial.refusals.count() == 1);
  return trial.refusal();
}

}  // namespace

TEST_CASE("a box within its image is taken as it is", "[boxes]") {
  Trial trial;
  trial.admit(file_box({0, 0, 100, 80}));
  trial.admit(file_box({0.25, 79.5, 0.5, 79.75}));
  trial.admit(file_box({1, 2, 3, 4}, 0.0));
  trial.admit(file_box({1, 2, 3, 4}, 3.5));
  CHECK(objects_text(trial.image) ==
        "1:[0, 0, 100, 80] 1:[0.25, 79.5, 0.5, 79.75] 1:[1, 2, 3, 4] 1:[1, 2, 3, 4]");
  CHECK(trial.image.objects[0].area == 8000);
  CHECK(trial.image.objects[1].area == 0.0625);
  CHECK(trial.image.objects[2].area == 0);  // as the file has it
  CHECK(trial.image.objects[3].area == 3.5);
  CHECK(trial.refusal().empty());
  CHECK(notes_of(trial.tallies).empty());
}

TEST_CASE("the area uses the file's width and height", "[boxes]") {
  Trial trial;
  trial.admit({.object = {.box = {0.1, 0.1, 0.1 + 32.0, 0.1 + 32.0}, .label = 1}, .width = 32, .height = 32});
  REQUIRE(trial.image.objects.size() == 1);
  CHECK(trial.image.objects[0].area == 1024);  // exactly: COCO's border of small and medium
}

TEST_CASE("boxes over the border are cut to it and counted", "[boxes]") {
  Trial trial;
  trial.admit(file_box({-1, 10, 20, 30}));
  trial.admit(file_box({90, -2.5, 100.5, 81}));
  trial.admit(file_box({-5, -5, 200, 200}, 12.0));
  CHECK(objects_text(trial.image) == "1:[0, 10, 20, 30] 1:[90, 0, 100, 80] 1:[0, 0, 100, 80]");
  CHECK(trial.image.objects[0].area == 400);  // of what is left
  CHECK(trial.image.objects[2].area == 12);
  CHECK(trial.tallies.clipped.count == 3);
  CHECK(trial.tallies.clipped.first == "[file] annotation 7: [-1, 10, 20, 30] in an image of 100x80");
  CHECK(trial.refusal().empty());
}

TEST_CASE("boxes of zero area and boxes outside of their image are left out and counted", "[boxes]") {
  Trial trial;
  trial.admit(file_box({10, 10, 10, 30}));
  trial.admit(file_box({10, 10, 30, 10}));
  trial.admit({.object = {.box = {1e5, 10, 1e5 + 1e-20, 30}, .label = 1}, .width = 1e-20, .height = 20});
  CHECK(trial.tallies.zero_area.count == 3);
  CHECK(trial.tallies.zero_area.first == "[file] annotation 7: [10, 10, 10, 30]");
  trial.admit(file_box({100, 10, 120, 30}));
  trial.admit(file_box({-20, 10, 0, 30}));
  trial.admit(file_box({10, 80, 20, 90}));
  trial.admit(file_box({10, -9, 20, 0}));
  CHECK(trial.tallies.outside.count == 4);
  CHECK(trial.tallies.outside.first == "[file] annotation 7: [100, 10, 120, 30] in an image of 100x80");
  CHECK(trial.tallies.clipped.count == 0);
  CHECK(trial.image.objects.empty());
  CHECK(trial.refusal().empty());
}

TEST_CASE("boxes that are none are refused with their values", "[boxes]") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = HUGE_VAL;
  CHECK(refusal_of(file_box({30, 10, 20, 40})) ==
        "[file] annotation 7: its box is -10 wide and 30 high; neither may be negative");
  CHECK(refusal_of(file_box({10, 40, 20, 10})) ==
        "[file] annotation 7: its box is 10 wide and -30 high; neither may be negative");
  CHECK(refusal_of(file_box({kNan, 10, 20, 40})) ==
        "[file] annotation 7: its box [nan, 10, 20, 40] is not finite");
  CHECK(refusal_of(file_box({10, 10, kInf, 40})) ==
        "[file] annotation 7: its box [10, 10, inf, 40] is not finite");
  CHECK(refusal_of(file_box({1, 2, 3, 4}, -1.0)) ==
        "[file] annotation 7: its area is -1, expected a finite number of at least 0");
  CHECK(refusal_of(file_box({1, 2, 3, 4}, kNan)) ==
        "[file] annotation 7: its area is nan, expected a finite number of at least 0");
}

TEST_CASE("refusals are counted and told once, by the first", "[boxes]") {
  Trial trial;
  trial.admit(file_box({30, 10, 20, 40}));
  trial.admit(file_box({30, 10, 25, 40}));
  CHECK(trial.refusal() ==
        "[file] annotation 7: its box is -10 wide and 30 high; neither may be negative; 1 more is refused");
  trial.admit(file_box({30, 10, 25, 40}));
  CHECK_FAILS(UserError, trial.refusals.finish(), "neither may be negative; 2 more are refused");
}

TEST_CASE("training has no crowds, and difficult objects where it is to have them", "[boxes]") {
  const auto corpus = [] {
    BoxCorpus made;
    made.classes.add("cat", 1);
    made.images = {{.name = "a",
                    .objects = {{.box = {0, 0, 1, 1}, .label = 1, .id = 1, .crowd = true},
                                {.box = {0, 0, 2, 2}, .label = 1, .id = 2, .difficult = true},
                                {.box = {0, 0, 3, 3}, .label = 1, .id = 3}}}};
    return made;
  };
  BoxCorpus kept = corpus();
  drop_for_training(kept, false);
  CHECK(objects_text(kept.images[0]) == "1:[0, 0, 2, 2]! 1:[0, 0, 3, 3]");
  CHECK(kept.tallies.crowds.count == 1);
  CHECK(kept.tallies.crowds.first == "[a] annotation 1: [0, 0, 1, 1]");
  CHECK(kept.tallies.difficult.count == 0);
  BoxCorpus dropped = corpus();
  drop_for_training(dropped, true);
  CHECK(objects_text(dropped.images[0]) == "1:[0, 0, 3, 3]");
  CHECK(dropped.tallies.difficult.count == 1);
}

TEST_CASE("a summary counts images, boxes and classes; notes say what was changed, once", "[boxes]") {
  BoxCorpus corpus;
  corpus.classes.add("cat", 1);
  corpus.classes.add("dog", 2);
  corpus.classes.add("emu", 3);
  corpus.images = {{.objects = {{.label = 2}, {.label = 2, .crowd = true}, {.label = 1, .difficult = true}}},
                   {.objects = {}},
                   {.objects = {{.label = 2}}}};
  const datasets::BoxSummary summary = summary_of(corpus);
  CHECK(summary.images == 3);
  CHECK(summary.empty_images == 1);
  CHECK(summary.boxes == 4);
  CHECK(summary.per_class == std::vector<Index>{0, 1, 3, 0});
  CHECK(summary.text(corpus.classes) ==
        "3 images, 1 of them without a box; 4 boxes: dog 3, cat 1, emu 0; 1 crowd; 1 difficult");
  corpus.tallies.clipped = {3, "[f] a: b"};
  corpus.tallies.zero_area = {1, "[f] c: d"};
  CHECK(notes_of(corpus.tallies) ==
        std::vector<std::string>{"3 boxes across the border of the image, clipped to it; the first: [f] a: b",
                                 "1 box of zero area, left out; it is: [f] c: d"});
}

TEST_CASE("images are of the size that annotations say, or lie on their side", "[boxes]") {
  const BoxImage image{.file = "f.jpg", .name = "f", .width = 100, .height = 80};
  CHECK_FALSE(turned(image, 100, 80));
  CHECK(turned(image, 80, 100));
  CHECK_FAILS(UserError, turned(image, 100, 81),
              "[f.jpg] has 100x81 pixels, its annotations (image f) are of 100x80");
  CHECK_FAILS(UserError, turned(image, 50, 40), "has 50x40 pixels");
  CHECK_FAILS(UserError, turned(image, 80, 70), "has 80x70 pixels");
  CHECK_FAILS(UserError, turned(image, 70, 100), "has 70x100 pixels");
}

TEST_CASE("images without a file are an error, or left out with their boxes", "[boxes]") {
  const TempFolder folder;
  BoxCorpus corpus{.where = "list", .classes = {}, .images = {}, .tallies = {}};
  for (const char* name : {"a", "b", "c"})
    corpus.images.push_back({.file = (folder / name).string(), .name = name, .id = *name});
  write_text(folder / "b", "pixels");
  BoxCorpus copy = corpus;
  CHECK_FAILS(UserError, check_images(copy, datasets::MissingImages::error),
              "[list] lists 2 images without a file, the first: [list] image a (id 97): there is no file ");
  check_images(corpus, datasets::MissingImages::skip);
  REQUIRE(corpus.images.size() == 1);
  CHECK(corpus.images[0].name == "b");
  CHECK(corpus.tallies.missing.count == 2);
  BoxCorpus gone{
      .where = "list", .classes = {}, .images = {{.file = (folder / "x").string()}}, .tallies = {}};
  CHECK_FAILS(UserError, check_images(gone, datasets::MissingImages::skip),
              "none of its 1 images has a file");
}
