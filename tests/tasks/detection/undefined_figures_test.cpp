// Undefined metrics of a detector on a split, and results that VOC's format cannot represent.
#include <catch2/catch.hpp>

#include "tasks/detection/evaluation.h"
#include "tests/support/errors.h"

using namespace tandem;
using datasets::BoxCorpus;
using datasets::BoxObject;
using tasks::undefined_figures;

namespace {

// An image with an object of side × side pixels for each side.
BoxCorpus corpus_of(const std::vector<double>& sides) {
  BoxCorpus corpus;
  corpus.classes.add("thing", 1);
  corpus.images.push_back({.file = "a.png", .name = "a", .id = 1, .width = 500, .height = 500});
  std::int64_t id = 0;
  for (const double side : sides)
    corpus.images.back().objects.push_back(
        {.box = {0.0, 0.0, side, side}, .label = 1, .id = ++id, .area = side * side});
  return corpus;
}

}  // namespace

TEST_CASE("a split defines the figures that it has objects for", "[detection_figures]") {
  CHECK(undefined_figures(corpus_of({10.0, 50.0, 200.0}), 1).empty());
  const auto small = undefined_figures(corpus_of({10.0}), 1);
  CHECK(small.size() == 4);
  for (const char* figure : {"AP_medium", "AP_large", "AR_medium", "AR_large"}) CHECK(small.contains(figure));
  CHECK(undefined_figures(corpus_of({}), 1).size() == 13);
  CHECK(undefined_figures(corpus_of({10.0, 50.0, 200.0}), 0).size() == 13);  // of the first images alone
  BoxCorpus crowds = corpus_of({200.0});
  crowds.images[0].objects[0].crowd = true;
  CHECK(undefined_figures(crowds, 1).size() == 12);
  BoxCorpus difficult = corpus_of({10.0, 50.0, 200.0});
  for (BoxObject& object : difficult.images[0].objects) object.difficult = true;
  const auto voc = undefined_figures(difficult, 1);
  CHECK(voc.size() == 1);
  CHECK(voc.contains("mAP"));
}

TEST_CASE("a name of several words stands in no line of VOC's", "[detection_figures]") {
  const std::vector<std::int64_t> images{1, 2};
  CHECK(tasks::lacking_for_voc(images, {{1, "a"}, {2, "b"}}).empty());
  CHECK(tasks::lacking_for_voc(images, {{1, "a"}, {2, "my cat"}}) ==
        "image 2 is called \"my cat\", but VOC's format needs a name of one word");
  CHECK(tasks::lacking_for_voc(images, {{1, "a"}}) == "two images have the number 2");
}
