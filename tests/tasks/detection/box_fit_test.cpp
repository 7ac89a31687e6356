// Fit of a model's anchors to a set's boxes, counted by hand; and photographs of VOC with NumPy's counts
// (tests/golden/ssd_vectors.py).
#include "tasks/detection/box_fit.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "autograd/ops/boxes.h"
#include "data/boxes/box_registry.h"
#include "models/anchors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using datasets::BoxImage;

namespace {

// 80×40 pixels; boxes in shares of its sides.
BoxImage image_of(const std::vector<std::array<double, 4>>& boxes) {
  BoxImage image{.width = 80, .height = 40};
  for (const auto& [x1, y1, x2, y2] : boxes)
    image.objects.push_back({.box = {80 * x1, 40 * y1, 80 * x2, 40 * y2}, .label = 1});
  return image;
}

// Three anchors, two of them alike.
Tensor three_anchors() {
  return test::floats({.25f, .25f, .5f, .5f, .75f, .75f, .5f, .5f, .75f, .75f, .5f, .5f}, {3, 4});
}

}  // namespace

TEST_CASE("a set's boxes are measured, and those counted that anchors do not fit", "[tasks][detection]") {
  datasets::BoxCorpus corpus;
  // The second box is a quarter of the anchor that overlaps it most. The last three want one anchor, which
  // the last of them has.
  corpus.images = {image_of({{0, 0, .5, .5}, {.75, .75, 1, 1}}), image_of({}),
                   image_of({{0, 0, .5, .5}, {0, 0, .5, .45}, {0, 0, .45, .5}})};
  const tasks::BoxFit fit = tasks::fit_of(corpus, three_anchors(), 64, {});
  CHECK(fit.boxes == 5);
  CHECK(fit.uncovered == Approx(0.2));
  CHECK(fit.unmatched == 2);
  CHECK(fit.tenth == Approx(16.0));
  CHECK(fit.nine_tenths == Approx(32.0));
  CHECK(fit.text(0.5) ==
        "boxes of 16 to 32 pixels (10 % and 90 % quantiles), median 30; no anchor overlaps 20.0 % "
        "of them by 0.5; no anchor learns 2 of 5");
  CHECK(tasks::fit_of(corpus, three_anchors(), 64, {}, 1).boxes == 2);  // of one image, the first
  corpus.images.resize(2);
  CHECK(tasks::fit_of(corpus, three_anchors(), 64, {}).text(0.5).ends_with("50.0 % of them by 0.5"));
  // A sliver without an area in f32 has no code, and is nobody's.
  corpus.images = {image_of({{.5, 0, .5 + 1e-12, .5}})};
  CHECK(tasks::fit_of(corpus, three_anchors(), 64, {}).unmatched == 0);
}

// Boxes as their files have them, which come with Debian's package labelme-examples: fractions of pixels, and
// no first pixel is taken off.
TEST_CASE("anchors that learn each object of three photographs", "[tasks][detection]") {
  const char* const photographs = "/usr/share/doc/labelme-examples/examples/bbox_detection/data_dataset_voc";
  if (!std::filesystem::exists(std::filesystem::path(photographs) / "Annotations/2011_000003.xml")) {
    WARN("left out: Debian's package labelme-examples, which has the photographs, is not there");
    return;
  }
  const std::vector<std::string> all{"."};
  const datasets::BoxCorpus corpus =
      datasets::open_box_set("voc", {.path = photographs},
                             {{"train", all}, {"test", all}, {"one_based", false}})
          .train;
  REQUIRE(corpus.images.size() == 3);
  const auto check = [&](const char* grid, const std::vector<std::vector<Index>>& expected) {
    CAPTURE(grid);
    const Tensor anchors = models::anchor_grid(grid).boxes().to(test::test_device());
    for (std::size_t i = 0; i < corpus.images.size(); ++i) {
      const BoxImage& image = corpus.images[i];
      CAPTURE(image.name);
      std::vector<float> rows;
      for (const datasets::BoxObject& object : image.objects) {
        const auto& [x1, y1, x2, y2] = object.box;
        const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
        for (const double share : {x1 / width, y1 / height, x2 / width, y2 / height})
          rows.push_back(static_cast<float>(share));
        rows.push_back(static_cast<float>(rows.size() / 5 + 1));
      }
      const auto objects = static_cast<Index>(image.objects.size());
      const MatchedBoxes matched = match_boxes(anchors, test::floats(rows, {1, objects, 5}));
      std::vector<Index> positives(image.objects.size());
      for (const std::int32_t label : matched.label.to_vector<std::int32_t>())
        if (label > 0) ++positives.at(static_cast<std::size_t>(label - 1));
      CHECK(positives == expected[i]);
    }
  };
  check("coco300", {{8, 2}, {14, 7, 6, 3}, {8, 4, 4}});
  check("voc300", {{8, 5}, {16, 11, 12, 8}, {9, 2, 16}});
}
