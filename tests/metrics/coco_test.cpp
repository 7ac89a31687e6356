// COCO metrics against pycocotools 2.0.11 (tests/golden/coco_metric.py) and worked examples.
#include "metrics/coco.h"

#include <omp.h>

#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "tests/metrics/drawn_set.h"
#include "tests/metrics/golden_sets.h"
#include "tests/support/errors.h"
#include "tests/support/threads.h"

using namespace tandem;
using metrics::CocoResult;
using metrics::Detection;
using metrics::evaluate_coco;
using metrics::PixelBox;
using metrics::TrueBox;
using nlohmann::json;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = HUGE_VAL;
using Ids = std::vector<std::int64_t>;

Approx close_to(double value) { return Approx(value).margin(1e-12).epsilon(0); }

TrueBox object(std::int64_t id, std::int64_t image, std::int64_t category, const PixelBox& box) {
  return {.id = id, .image = image, .category = category, .box = box, .area = box.area()};
}

struct Example {
  Ids images, categories;
  std::vector<TrueBox> objects;
  std::vector<Detection> detections;

  CocoResult result(const metrics::CocoOptions& options = {}) const {
    return evaluate_coco({images, categories, objects}, detections, options);
  }
  double figure(std::string_view name) const {
    const auto place = std::find(metrics::kCocoFigures.begin(), metrics::kCocoFigures.end(), name);
    return result().figures.at(static_cast<std::size_t>(place - metrics::kCocoFigures.begin()));
  }
};

// Three categories, one without objects; a crowd; an area of exactly 32².
Example tiny() {
  Example example{.images = {10, 20, 30},
                  .categories = {1, 3, 7},
                  .objects = {object(1, 10, 1, {10, 10, 20, 20}), object(2, 10, 1, {50, 50, 40, 40}),
                              object(3, 10, 1, {0, 0, 100, 100}), object(4, 20, 1, {30, 30, 50, 50}),
                              object(5, 20, 3, {100, 100, 120, 120}), object(6, 30, 3, {0, 0, 10, 10})},
                  .detections = {{10, 1, {10, 10, 20, 20}, .9},
                                 {10, 1, {12, 10, 20, 20}, .8},
                                 {10, 1, {52, 52, 40, 40}, .7},
                                 {20, 1, {30, 30, 50, 40}, .9},
                                 {20, 3, {110, 110, 120, 120}, .6},
                                 {30, 3, {0, 0, 5, 10}, .6},
                                 {30, 7, {0, 0, 10, 10}, .99},
                                 {30, 1, {60, 60, 10, 10}, .95},
                                 {20, 3, {300, 300, 10, 10}, .65}}};
  example.objects[2].crowd = true;
  example.objects[3].area = 1024;
  return example;
}

// `objects` 10×10 boxes far apart in an image and category; of the first `found` the detections, score 1.
Example row(int objects, int found) {
  Example example{.images = {1}, .categories = {1}};
  for (int i = 0; i < objects; ++i) {
    example.objects.push_back(object(i + 1, 1, 1, {20.0 * i, 0, 10, 10}));
    if (i < found) example.detections.push_back({1, 1, example.objects.back().box, 1.0});
  }
  return example;
}

}  // namespace

TEST_CASE("COCO's figures of a small set", "[coco]") {
  const CocoResult result = tiny().result();
  const metrics::CocoFigures expected = {.3715759075907591,
                                         .7083333333333333,
                                         .375,
                                         .29620462046204615,
                                         .7,
                                         .49999999999999994,
                                         .3083333333333333,
                                         .55,
                                         .55,
                                         .475,
                                         .7,
                                         .5};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(metrics::kCocoFigures[i]);
    CHECK(result.figures[i] == close_to(expected[i]));
  }
  REQUIRE(result.categories.size() == 3);
  CHECK(result.categories[0].figures[0] == Approx(.5754950495).margin(5e-11).epsilon(0));
  CHECK(result.categories[1].figures[0] == Approx(.1676567657).margin(5e-11).epsilon(0));
  CHECK(result.categories[2].id == 7);
  for (const double figure : result.categories[2].figures) CHECK(figure == -1.0);
  CHECK(result.warnings.empty());
}

TEST_CASE("annotation 0 can only be missed, with a warning", "[coco]") {
  Example example = tiny();
  example.objects[0].id = 0;
  CHECK(example.figure("AP") == Approx(.1999174917).margin(5e-11).epsilon(0));
  CHECK(example.figure("AP50") == Approx(.4991749175).margin(5e-11).epsilon(0));
  CHECK(example.figure("AR100") == Approx(.3833333333).margin(5e-11).epsilon(0));
  REQUIRE(example.result().warnings.size() == 1);
  CHECK_THAT(example.result().warnings[0], Catch::Matchers::StartsWith("annotation 0 (image 10)"));
  // What takes a crowd does not count in any case.
  Example crowd = tiny();
  crowd.objects[2].id = 0;
  CHECK(crowd.result().figures == tiny().result().figures);
  CHECK(crowd.result().warnings.empty());
}

TEST_CASE("recalls are multiples of FP64's 0.01, and a single hit is less than all", "[coco]") {
  CHECK(row(20, 7).figure("AP") == close_to(35.0 / 101));
  const CocoResult one = row(1, 1).result({.curves = true});
  for (const double precision : one.categories[0].precisions) CHECK(precision == 0.9999999999999998);
  CHECK(one.figures[6] == 1.0);
}

TEST_CASE("the ninth threshold is one ulp below 0.9", "[coco]") {
  Example example = row(0, 0);
  example.objects = {object(1, 1, 1, {0, 0, 64, 1})};
  example.detections = {{1, 1, {0, 0, 64 * 0.8999999999999999, 1}, .9}};  // the overlap is 0.8999999999999999
  CHECK(example.figure("AR100") == close_to(0.9));
}

TEST_CASE("equal scores keep the order of images, and in an image that of the file", "[coco]") {
  Example example = row(1, 1);
  const Detection wrong{1, 1, {500, 500, 10, 10}, 1.0};
  example.detections.push_back(wrong);
  CHECK(example.figure("AP") == close_to(1.0));
  std::swap(example.detections[0], example.detections[1]);
  CHECK(example.figure("AP") == close_to(0.5));
  // Images count by id, wherever they stand in the list and the file.
  example.images = {5, 1};
  example.detections[0].image = 5;
  CHECK(example.figure("AP") == close_to(1.0));
  example.images = {0, 1};
  example.detections[0].image = 0;
  CHECK(example.figure("AP") == close_to(0.5));
}

TEST_CASE("among equally overlapping objects the later is chosen", "[coco]") {
  // The detection halves both; whether the second one finds its object tells which it took.
  Example example = row(0, 0);
  example.objects = {object(1, 1, 1, {0, 0, 10, 10}), object(2, 1, 1, {10, 0, 10, 10})};
  example.detections = {{1, 1, {0, 0, 20, 10}, .9}, {1, 1, {0, 0, 10, 10}, .8}};
  CHECK(example.figure("AP50") == close_to(1.0));
  example.detections[1].box = {10, 0, 10, 10};
  CHECK(example.figure("AR100") == close_to(0.5));
  CHECK(example.figure("AP50") == close_to(51.0 / 101));
}

TEST_CASE("an image and category have a hundred detections", "[coco]") {
  Example example = row(1, 0);
  example.detections.assign(100, {1, 1, {500, 500, 10, 10}, .9});
  example.detections.push_back({1, 1, example.objects[0].box, .8});
  CHECK(example.figure("AP") == 0.0);
  CHECK(example.figure("AR100") == 0.0);
  example.detections.erase(example.detections.begin());
  CHECK(example.figure("AP") == close_to(0.01));
  CHECK(example.figure("AR100") == 1.0);
  CHECK(example.figure("AR10") == 0.0);
}

TEST_CASE("an object without area is never found", "[coco]") {
  Example example = row(1, 1);
  example.objects.push_back(object(2, 1, 1, {100, 100, 0, 10}));
  example.detections.push_back({1, 1, {100, 100, 0, 10}, .9});
  CHECK(example.figure("AP") == close_to(51.0 / 101));
  example.detections[0].score = .8;
  CHECK(example.figure("AP") == close_to(.2524752475247525));
}

TEST_CASE("metrics are 0 without detections, -1 without objects", "[coco]") {
  const metrics::CocoFigures expected = {0, 0, 0, 0, -1, -1, 0, 0, 0, 0, -1, -1};
  CHECK(row(3, 0).result().figures == expected);
  Example nothing = row(1, 1);
  nothing.objects.clear();
  metrics::CocoFigures none;
  none.fill(-1.0);
  CHECK(nothing.result({.curves = true}).figures == none);
  CHECK(nothing.result({.curves = true}).categories[0].precisions.empty());
  CHECK(Example().result().figures == none);
}

TEST_CASE("COCO's figures of 200 drawn sets are pycocotools'", "[coco]") {
  REQUIRE(test::golden_sets().size() == 200);
  std::size_t curves = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    CAPTURE(i);
    const test::DrawnSet set(static_cast<int>(i));
    const json& golden = test::golden_sets()[i];
    REQUIRE(golden.at("boxes") == json{set.truth().boxes.size(), set.detections().size()});
    const CocoResult result = evaluate_coco(set.truth(), set.detections(), {.curves = true});
    for (std::size_t k = 0; k < result.figures.size(); ++k) {
      CAPTURE(metrics::kCocoFigures[k]);
      CHECK(result.figures[k] == close_to(golden.at("coco").at(k)));
    }
    REQUIRE(golden.at("ap").size() == result.categories.size());
    for (std::size_t k = 0; k < result.categories.size(); ++k)
      CHECK(result.categories[k].figures[0] == close_to(golden.at("ap").at(k)));
    const std::vector<double>& found = result.categories[0].precisions;
    if (!golden.contains("precisions") || found.empty()) continue;
    ++curves;
    for (const auto& [row_of_golden, threshold] : std::map<std::size_t, std::size_t>{{0, 0}, {1, 5}}) {
      const auto first = found.begin() + static_cast<std::ptrdiff_t>(threshold * metrics::kCocoRecalls);
      CHECK(std::vector<double>(first, first + metrics::kCocoRecalls) ==
            golden.at("precisions").at(row_of_golden).get<std::vector<double>>());
    }
  }
  CHECK(curves >= 10);
}

TEST_CASE("the number of threads does not change a bit of COCO's figures", "[coco]") {
  for (int i = 1; i < 200; i += 13) {
    const test::DrawnSet set(i);
    const test::OneThread one;
    const CocoResult alone = evaluate_coco(set.truth(), set.detections(), {.curves = true});
    omp_set_num_threads(2);
    const CocoResult both = evaluate_coco(set.truth(), set.detections(), {.curves = true});
    CHECK(alone.figures == both.figures);
    for (std::size_t k = 0; k < alone.categories.size(); ++k) {
      CHECK(alone.categories[k].figures == both.categories[k].figures);
      CHECK(alone.categories[k].precisions == both.categories[k].precisions);
    }
  }
}

TEST_CASE("COCO's metric refuses invalid input", "[coco]") {
  const auto fails = [](const auto& change, const std::string& message) {
    Example example = tiny();
    change(example);
    CHECK_FAILS(UserError, example.result(), message);
  };
  fails(
      [](Example& e) {
        e.images = {10, 20, 10};
      },
      "[coco] every image must be listed once, image 10 is listed twice");
  fails([](Example& e) { e.categories[2] = 3; },
        "every category must be listed once, category 3 is listed twice");
  fails([](Example& e) { e.objects[4].id = 2; },
        "every annotation must be listed once, annotation 2 is listed twice");
  fails([](Example& e) { e.objects[1].image = 11; },
        "annotation 2 (image 11) has image 11, which is not among the 3");
  fails([](Example& e) { e.objects[1].category = 2; },
        "annotation 2 (image 10) has category 2, which is not among the 3");
  fails([](Example& e) { e.detections[8].image = 0; },
        "detection 8 (image 0, category 3) has image 0, which is not among the 3");
  fails([](Example& e) { e.detections[0].category = 80; },
        "detection 0 (image 10, category 80) has category 80, which is not among the 3");
  fails([](Example& e) { e.detections[3].score = kNaN; },
        "detection 3 (image 20, category 1) has the score NaN");
  fails([](Example& e) { e.detections[3].box.x = kNaN; }, "has the box [nan, 30, 50, 40]");
  fails([](Example& e) { e.detections[3].box.y = kInfinity; }, "expected finite numbers");
  fails([](Example& e) { e.detections[3].box.width = -1; }, "has the box [30, 30, -1, 40]");
  fails([](Example& e) { e.objects[0].box.height = -0.5; },
        "annotation 1 (image 10) has the box [10, 10, 20, -0.5]");
  fails([](Example& e) { e.objects[0].area = kNaN; }, "annotation 1 (image 10) has the area nan");
  fails([](Example& e) { e.objects[0].area = -4; }, "annotation 1 (image 10) has the area -4");
}
