// VOC metrics against a port of the development kit's rules (tests/golden/coco_metric.py) and worked
// examples.
#include "metrics/voc.h"

#include <omp.h>

#include <catch2/catch.hpp>
#include <limits>

#include "tests/metrics/drawn_set.h"
#include "tests/metrics/golden_sets.h"
#include "tests/support/errors.h"
#include "tests/support/threads.h"

using namespace tandem;
using metrics::Detection;
using metrics::evaluate_voc;
using metrics::PixelBox;
using metrics::TrueBox;
using metrics::VocResult;
using nlohmann::json;

namespace {

Approx near_to(double value, double margin = 1e-12) { return Approx(value).margin(margin).epsilon(0); }

// Of VOC's xmin, ymin, xmax, ymax.
PixelBox voc_box(double xmin, double ymin, double xmax, double ymax) {
  return {xmin - 1, ymin - 1, xmax - xmin + 1, ymax - ymin + 1};
}

constexpr std::int64_t kA = 0, kB = 1, kC = 2;  // images
const std::vector<std::int64_t> kImages = {kA, kB, kC}, kClasses = {4};

struct VocExample {
  std::vector<TrueBox> objects;
  std::vector<Detection> detections;

  VocResult result(bool curves = false) const {
    return evaluate_voc({kImages, kClasses, objects}, detections, {.curves = curves});
  }
};

VocExample tiny_voc() {
  return {
      .objects = {{.id = 1, .image = kA, .category = 4, .box = voc_box(1, 1, 10, 10)},
                  {.id = 2, .image = kA, .category = 4, .box = voc_box(21, 21, 40, 40), .difficult = true},
                  {.id = 3, .image = kB, .category = 4, .box = voc_box(1, 1, 20, 20)},
                  {.id = 4, .image = kB, .category = 4, .box = voc_box(1, 1, 10, 20)}},
      .detections = {{kA, 4, voc_box(21, 21, 40, 40), .9},
                     {kA, 4, voc_box(1, 1, 10, 10), .8},
                     {kB, 4, voc_box(1, 1, 20, 20), .7},
                     {kB, 4, voc_box(1, 1, 20, 19), .7},
                     {kC, 4, voc_box(5, 5, 9, 9), .6},
                     {kB, 4, voc_box(1, 1, 10, 10), .5}}};
}

// Of 10 objects the first `found`.
VocExample found_of_ten(int found) {
  VocExample example;
  for (int i = 0; i < 10; ++i) {
    const PixelBox box = {20.0 * i, 0, 10, 10};
    example.objects.push_back({.id = i + 1, .image = kA, .category = 4, .box = box});
    if (i < found) example.detections.push_back({kA, 4, box, 1.0 - 0.01 * i});
  }
  return example;
}

}  // namespace

TEST_CASE("VOC's figures of a small set", "[voc]") {
  const VocResult result = tiny_voc().result(true);
  REQUIRE(result.mean);
  CHECK(result.mean->eleven_point == near_to(.8545454545, 5e-11));
  CHECK(result.mean->area == near_to(.8666666667, 5e-11));
  REQUIRE(result.classes.size() == 1);
  CHECK(result.classes[0].id == 4);
  CHECK(result.classes[0].objects == 3);
  CHECK(result.classes[0].figures->area == result.mean->area);
  // The difficult object first: neither right nor wrong.
  const std::vector<std::array<double, 3>> expected = {{.9, 0, 0},        {.8, 1.0 / 3, 1},
                                                       {.7, 2.0 / 3, 1},  {.7, 2.0 / 3, .6666666666666666},
                                                       {.6, 2.0 / 3, .5}, {.5, 1, .6}};
  REQUIRE(result.classes[0].curve.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const metrics::VocPoint& point = result.classes[0].curve[i];
    CHECK(std::array{point.score, point.recall, point.precision} == expected[i]);
  }
}

TEST_CASE("an overlap of exactly one half is enough for VOC", "[voc]") {
  VocExample example = tiny_voc();
  example.detections[5].box = voc_box(1, 1, 10, 9);
  CHECK(example.result().mean->area == near_to(2.0 / 3));
}

TEST_CASE("the eleven recalls are MATLAB's", "[voc]") {
  // 3/10 is below 3·0.1, 6/10 and 7/10 are not below 1 − 4·0.1 and 1 − 3·0.1.
  CHECK(found_of_ten(3).result().mean->eleven_point == near_to(3.0 / 11));
  CHECK(found_of_ten(6).result().mean->eleven_point == near_to(7.0 / 11));
  CHECK(found_of_ten(7).result().mean->eleven_point == near_to(8.0 / 11));
  CHECK(found_of_ten(10).result().mean->eleven_point == near_to(1.0));
}

TEST_CASE("among equally overlapping objects VOC chooses the first, taken or not", "[voc]") {
  VocExample example{.objects = {{.id = 1, .image = kA, .category = 4, .box = {0, 0, 10, 10}},
                                 {.id = 2, .image = kA, .category = 4, .box = {10, 0, 10, 10}}},
                     .detections = {{kA, 4, {0, 0, 20, 10}, .9}, {kA, 4, {0, 0, 20, 10}, .8}}};
  CHECK(example.result(true).classes[0].curve.back().recall == 0.5);
  example.objects[0].difficult = true;
  CHECK(example.result().mean->area == 0.0);
}

TEST_CASE("a class without objects to find has no figures", "[voc]") {
  VocExample example = tiny_voc();
  for (TrueBox& object : example.objects) object.difficult = true;
  const VocResult difficult = example.result(true);
  CHECK_FALSE(difficult.mean);
  CHECK_FALSE(difficult.classes[0].figures);
  CHECK(difficult.classes[0].objects == 0);
  CHECK(difficult.classes[0].curve.empty());
  // It does not pull the mean down.
  const std::vector<std::int64_t> classes = {9, 4};
  example = tiny_voc();
  const VocResult both = evaluate_voc({kImages, classes, example.objects}, example.detections);
  REQUIRE(both.classes.size() == 2);
  CHECK(both.classes[1].id == 9);
  CHECK_FALSE(both.classes[1].figures);
  CHECK(both.mean->area == example.result().mean->area);

  example.detections.clear();
  CHECK(example.result().mean->eleven_point == 0.0);
  CHECK(example.result().mean->area == 0.0);
}

TEST_CASE("VOC's figures of 200 drawn sets are the kit's", "[voc]") {
  std::size_t curves = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    CAPTURE(i);
    const test::DrawnSet set(static_cast<int>(i));
    const json& golden = test::golden_sets().at(i);
    const VocResult result = evaluate_voc(set.truth(), set.detections(), {.curves = true});
    REQUIRE(golden.at("voc").size() == result.classes.size());
    for (std::size_t k = 0; k < result.classes.size(); ++k) {
      const json& expected = golden.at("voc").at(k);
      REQUIRE(expected.is_null() != result.classes[k].figures.has_value());
      if (expected.is_null()) continue;
      CHECK(result.classes[k].figures->eleven_point == near_to(expected.at(0)));
      CHECK(result.classes[k].figures->area == near_to(expected.at(1)));
    }
    if (!golden.contains("curve") || golden.at("curve").is_null()) continue;
    ++curves;
    json recalls = json::array(), precisions = json::array();
    for (const metrics::VocPoint& point : result.classes[0].curve) {
      recalls.push_back(point.recall);
      precisions.push_back(point.precision);
    }
    CHECK(golden.at("curve") == json{recalls, precisions});
  }
  CHECK(curves >= 10);
}

TEST_CASE("the number of threads does not change a bit of VOC's figures", "[voc]") {
  for (int i = 1; i < 200; i += 13) {
    const test::DrawnSet set(i);
    const test::OneThread one;
    const VocResult alone = evaluate_voc(set.truth(), set.detections());
    omp_set_num_threads(2);
    const VocResult both = evaluate_voc(set.truth(), set.detections());
    REQUIRE(alone.mean.has_value() == both.mean.has_value());
    if (!alone.mean) continue;
    CHECK(alone.mean->area == both.mean->area);
    CHECK(alone.mean->eleven_point == both.mean->eleven_point);
  }
}

TEST_CASE("VOC's metric refuses invalid input", "[voc]") {
  VocExample example = tiny_voc();
  example.detections[2].score = std::numeric_limits<double>::quiet_NaN();
  CHECK_FAILS(UserError, example.result(), "[voc] detection 2 (image 1, category 4) has the score NaN");
  example = tiny_voc();
  example.detections[2].image = 3;
  CHECK_FAILS(UserError, example.result(),
              "[voc] detection 2 (image 3, category 4) has image 3, which is not among the 3");
  example = tiny_voc();
  example.objects[3].category = 5;
  CHECK_FAILS(UserError, example.result(),
              "[voc] annotation 4 (image 1) has category 5, which is not among the 1");
}
