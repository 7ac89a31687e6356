// Detections of an image: decoding and NMS against independent values, and their order.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/kernels/boxes_formulas.h"
#include "metrics/overlap.h"
#include "models/anchors.h"
#include "models/box_suppression.h"
#include "tests/support/errors.h"

using namespace tandem;
using models::FoundBox;
using models::SuppressionOptions;
using models::UnitBox;

namespace {

constexpr std::array<float, 2> kVariances{0.1f, 0.2f};

UnitBox decoded(Index anchor, std::array<float, 4> code) {
  const Tensor boxes = models::anchor_grid("voc300").boxes();
  return models::decode_box(code, std::span<const float, 4>(boxes.data<float>() + 4 * anchor, 4), kVariances);
}

void check_box(const UnitBox& box, std::array<double, 4> expected) {
  CHECK(box.x1 == Approx(expected[0]).epsilon(1e-6));
  CHECK(box.y1 == Approx(expected[1]).epsilon(1e-6));
  CHECK(box.x2 == Approx(expected[2]).epsilon(1e-6));
  CHECK(box.y2 == Approx(expected[3]).epsilon(1e-6));
}

const std::vector<float> kAnchors{0.25f, 0.25f, 0.5f, 0.5f,  0.75f, 0.75f,
                                  0.5f,  0.5f,  0.3f, 0.25f, 0.5f,  0.5f};

std::vector<FoundBox> found(const std::vector<float>& scores, const SuppressionOptions& options = {}) {
  return models::find_boxes(scores, std::vector<float>(kAnchors.size(), 0.0f), kAnchors, options);
}

}  // namespace

TEST_CASE("codes become boxes", "[tasks][detection]") {
  check_box(decoded(8542, {.7f, -1.3f, 2.0f, -3.0f}), {-.258326002, -.111712475, .547259335, .184645808});
  check_box(decoded(8728, {1.0f, -2.0f, .5f, 30.0f}), {.101724796, -27.176, 1.074275204, 27.824});
}

// Suppression, matching and figures each have the formula in a type of their own.
TEST_CASE("overlaps of boxes are the published ones", "[tasks][detection]") {
  const auto check = [](const UnitBox& a, const UnitBox& b, double expected) {
    CHECK(static_cast<double>(models::overlap_of(a, b)) == Approx(expected).epsilon(1e-6).margin(1e-12));
    const auto corners = [](const UnitBox& box) { return boxes::Corners{box.x1, box.y1, box.x2, box.y2}; };
    const boxes::Corners p = corners(a), q = corners(b);
    const float matching = boxes::overlap(p, boxes::area_of(p), q, boxes::area_of(q));
    CHECK(static_cast<double>(matching) == Approx(expected).epsilon(1e-6).margin(1e-12));
    const auto pixels = [](const UnitBox& box) {
      const double x = box.x1, y = box.y1;
      return metrics::PixelBox{x, y, box.x2 - x, box.y2 - y};
    };
    CHECK(metrics::intersection_over_union(pixels(a), pixels(b)) ==
          Approx(expected).epsilon(1e-6).margin(1e-12));
  };
  constexpr UnitBox kBox{.1f, .1f, .5f, .5f};
  check(kBox, {.3f, .2f, .7f, .6f}, .23076923);
  check(kBox, {.2f, .2f, .3f, .3f}, .0625);
  check(kBox, {.5f, .5f, .9f, .9f}, 0);
}

TEST_CASE("boxes that overlap a surer one by more than so much go", "[tasks][detection]") {
  const std::vector<UnitBox> boxes{{0, 0, 10, 10},   {1, 0, 11, 10},   {0, 0, 10, 5},
                                   {20, 20, 30, 30}, {20, 20, 30, 30}, {0, 0, 10, 9}};
  CHECK(models::suppress(boxes, 0.45) == std::vector<Index>{0, 3});
  CHECK(models::suppress(boxes, 0.5) == std::vector<Index>{0, 2, 3});
  CHECK(models::suppress(boxes, 0.9) == std::vector<Index>{0, 1, 2, 3, 5});
  CHECK(models::suppress({}, 0.5).empty());
  const std::vector<UnitBox> points{{1, 1, 1, 1}, {1, 1, 1, 1}};
  CHECK(models::suppress(points, 0.0) == std::vector<Index>{0, 1});
}

TEST_CASE("detections come surest first, then by class, then by anchor", "[tasks][detection]") {
  // Anchors 0 and 2 overlap by 0.82.
  const auto boxes = found({.1f, .6f, .3f, .2f, .5f, .3f, .1f, .6f, .3f});
  REQUIRE(boxes.size() == 4);
  const auto check = [&](std::size_t i, Index label, Index anchor) {
    CHECK(boxes[i].label == label);
    CHECK(boxes[i].anchor == anchor);
  };
  check(0, 1, 0);
  check(1, 1, 1);
  check(2, 2, 0);
  check(3, 2, 1);
  CHECK(boxes[0].score == 0.6f);
  CHECK(boxes[1].box.x1 == 0.5f);
  CHECK(boxes[1].box.y2 == 1.0f);
}

TEST_CASE("detections are above the score, few of a class and of an image, and within it",
          "[tasks][detection]") {
  const std::vector<float> scores{.1f, .9f, .1f, .2f, .8f, .3f, .1f, .7f, .6f};
  CHECK(found(scores, {.score = 0.8}).size() == 1);
  CHECK(found(scores, {.score = 0.0, .overlap = 1.0}).size() == 6);
  CHECK(found(scores, {.per_class = 1}).size() == 2);
  const auto kept = found(scores, {.overlap = 1.0, .keep = 3});
  REQUIRE(kept.size() == 3);
  CHECK(kept[2].anchor == 2);
  const std::vector<float> wide{0, 0, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0};
  const auto clipped = models::find_boxes(scores, wide, kAnchors, {});
  CHECK(clipped[0].box.x1 == 0.0f);
  CHECK(clipped[0].box.x2 == Approx(0.25 + 0.25 * std::exp(1.0)));
  const auto whole = models::find_boxes(scores, wide, kAnchors, {.clip = false});
  CHECK(whole[0].box.x1 == Approx(0.25 - 0.25 * std::exp(1.0)));
}

TEST_CASE("a score that is no number is refused", "[tasks][detection]") {
  std::vector<float> scores(9, 0.3f);
  scores[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FAILS(UserError, found(scores), "class 2 at anchor 1 is NaN");
}
