// Anchors of the published detectors, and the objects they learn, against independent values (NumPy and
// torchvision 0.26).
#include "models/anchors.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "autograd/ops/boxes.h"
#include "core/error.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

using models::anchor_grid;
using models::AnchorClip;
using Box = std::array<double, 4>;
using Anchors = std::vector<std::int64_t>;

Box row_of(const Tensor& boxes, Index row) {
  const auto values = boxes.rows(row, 1).to_vector<double>();
  return {values[0], values[1], values[2], values[3]};
}

void check_box(const Tensor& boxes, Index row, const Box& expected) {
  CAPTURE(row);
  const Box got = row_of(boxes, row);
  for (std::size_t i = 0; i < 4; ++i) CHECK(got[i] == Approx(expected[i]).margin(6e-9).epsilon(3e-8));
}

Box sums_of(const Tensor& boxes) {
  const auto values = boxes.to_vector<double>();
  Box sums{};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % 4] += values[i];
  return sums;
}

// Objects of one image with the labels 1, 2, …
Tensor objects_of(const std::vector<Box>& boxes) {
  std::vector<float> values;
  for (std::size_t g = 0; g < boxes.size(); ++g) {
    for (const double value : boxes[g]) values.push_back(static_cast<float>(value));
    values.push_back(static_cast<float>(g + 1));
  }
  return test::floats(values, {1, static_cast<Index>(boxes.size()), 5});
}

Anchors anchors_of(const MatchedBoxes& matched, std::int64_t label) {
  const auto labels = matched.label.to_vector<std::int32_t>();
  Anchors found;
  for (std::size_t a = 0; a < labels.size(); ++a)
    if (labels[a] == label) found.push_back(static_cast<std::int64_t>(a));
  return found;
}

MatchedBoxes match(const char* grid, const std::vector<Box>& boxes,
                   BoxMatching matching = BoxMatching::argmax, AnchorClip clip = AnchorClip::cxcywh) {
  return match_boxes(anchor_grid(grid).boxes(clip).to(test::test_device()), objects_of(boxes),
                     {.matching = matching});
}

}  // namespace

TEST_CASE("anchors are where the published ones are", "[models][anchors]") {
  CHECK(anchor_grid("voc300").count() == 8732);
  CHECK(anchor_grid("coco300").count() == 8732);
  CHECK(anchor_grid("voc512").count() == 24564);
  CHECK(anchor_grid("coco512").count() == 24564);
  CHECK(anchor_grid("ssdlite320").count() == 3234);
  constexpr double kFirst = 4.0 / 300.0;
  const Tensor voc = anchor_grid("voc300").boxes();
  check_box(voc, 0, {kFirst, kFirst, 0.1, 0.1});
  check_box(voc, 1, {kFirst, kFirst, 0.14142136, 0.14142136});
  check_box(voc, 2, {kFirst, kFirst, 0.14142136, 0.07071068});
  check_box(voc, 3, {kFirst, kFirst, 0.07071068, 0.14142136});
  check_box(voc, 4, {0.04, kFirst, 0.1, 0.1});
  check_box(voc, 8727, {0.83333331, 0.83333331, 0.50204581, 1.0});
  check_box(voc, 8728, {0.5, 0.5, 0.88, 0.88});
  check_box(voc, 8729, {0.5, 0.5, 0.96124917, 0.96124917});
  check_box(voc, 8730, {0.5, 0.5, 1.0, 0.62225395});
  check_box(voc, 8731, {0.5, 0.5, 0.62225395, 1.0});
  const Tensor coco = anchor_grid("coco300").boxes();
  check_box(coco, 0, {kFirst, kFirst, 0.07, 0.07});
  check_box(coco, 1, {kFirst, kFirst, 0.10246951, 0.10246951});
  check_box(coco, 2, {kFirst, kFirst, 0.09899495, 0.04949747});
  check_box(coco, 3, {kFirst, kFirst, 0.04949747, 0.09899495});
  check_box(coco, 4, {0.04, kFirst, 0.07, 0.07});
  check_box(coco, 8727, {0.83333331, 0.83333331, 0.48790368, 0.97580737});
  check_box(coco, 8728, {0.5, 0.5, 0.87, 0.87});
  check_box(coco, 8729, {0.5, 0.5, 0.95577192, 0.95577192});
  check_box(coco, 8730, {0.5, 0.5, 1.0, 0.61518288});
  check_box(coco, 8731, {0.5, 0.5, 0.61518288, 1.0});
}

TEST_CASE("anchors add up to the published sums", "[models][anchors]") {
  const auto check = [](const char* name, AnchorClip clip, double centres, double extents) {
    CAPTURE(name);
    const Box sums = sums_of(anchor_grid(name).boxes(clip));
    CHECK(sums[0] == Approx(centres).epsilon(1e-7));
    CHECK(sums[1] == Approx(centres).epsilon(1e-7));
    CHECK(sums[2] == Approx(extents).epsilon(1e-7));
    CHECK(sums[3] == Approx(extents).epsilon(1e-7));
  };
  check("voc300", AnchorClip::none, 4443.946667, 1510.429285);
  check("voc300", AnchorClip::wh, 4443.946667, 1510.147952);
  check("voc300", AnchorClip::cxcywh, 4443.146667, 1510.147952);
  check("coco300", AnchorClip::none, 4443.946667, 1172.198034);
  check("coco300", AnchorClip::wh, 4443.946667, 1171.967669);
  check("coco300", AnchorClip::cxcywh, 4443.146667, 1171.967669);
  check("voc512", AnchorClip::none, 12282.0, 3146.141697);
  check("coco512", AnchorClip::none, 12282.0, 2192.471071);
  check("ssdlite320", AnchorClip::none, 1617.0, 919.591233);
  check("ssdlite320", AnchorClip::wh, 1617.0, 915.401738);
}

TEST_CASE("anchors that nobody has published are refused", "[models][anchors]") {
  CHECK_FAILS(UserError, anchor_grid("coco30"), "coco300");
  CHECK_FAILS(UserError, models::anchor_sizes(300, 2, 10, 20, 90), "three maps");
}

TEST_CASE("objects are learnt by the anchors that overlap them", "[models][anchors]") {
  const MatchedBoxes matched = match("coco300", {{.25, .4, .75, .8}, {.1, .1, .2, .22}});
  CHECK(anchors_of(matched, 1) == Anchors{8261, 8266, 8267, 8268, 8272, 8273, 8327, 8328, 8614, 8615, 8616});
  CHECK(anchors_of(matched, 2) == Anchors{781, 785, 933, 937});
  CHECK(matched.unmatched.to_vector<std::int32_t>() == std::vector<std::int32_t>{0});
}

TEST_CASE("codes of an object for an anchor", "[models][anchors]") {
  const auto check = [](Index anchor, const Box& expected) {
    CAPTURE(anchor);
    const Tensor one = anchor_grid("voc300").boxes().rows(anchor, 1).to(test::test_device());
    const auto code = match_boxes(one, objects_of({{.2, .3, .7, .9}})).code.to_vector<double>();
    for (std::size_t i = 0; i < 4; ++i) CHECK(code[i] == Approx(expected[i]).epsilon(2e-6));
  };
  check(8728, {-.568181818, 1.136363636, -2.826569045, -1.914961261});
  check(8542, {6.358024691, 9.135802469, -.384805206, .526802578});
  check(0, {43.666666667, 58.666666667, 8.047189562, 8.958797346});
}

TEST_CASE("two objects that want one anchor", "[models][anchors]") {
  const std::vector<Box> boxes{{.3, .3, .62, .62}, {.3, .3, .62, .62}, {.503, .503, .513, .515}};
  // Every anchor of 0.07² that holds the small one overlaps it by 0.00012/0.0049 = 0.0244898, so rounding
  // decides (tests/golden/ssd_vectors.py). In f32 from anchors in f32, here as in torchvision's box_iou,
  // 2659, 2663, 2806 and 2958 come to 0.024489697 and 2808 to 0.024489684. Corners that are computed in f64
  // and then rounded give 2808 0.024489725 and put it first, and so does f64 throughout.
  const Anchors small{2659};
  const Anchors others{8146, 8149, 8200, 8202, 8207, 8208, 8209};
  const MatchedBoxes last = match("coco300", boxes);
  CHECK(anchors_of(last, 2) == Anchors{8206});
  CHECK(anchors_of(last, 1) == others);
  CHECK(anchors_of(last, 3) == small);
  const MatchedBoxes greedy = match("coco300", boxes, BoxMatching::greedy);
  Anchors swapped = others;
  swapped[4] = 8206;
  std::ranges::sort(swapped);
  CHECK(anchors_of(greedy, 2) == Anchors{8207});
  CHECK(anchors_of(greedy, 1) == swapped);
  CHECK(anchors_of(greedy, 3) == small);
}

TEST_CASE("the last of two equal objects has the anchor, and the first may have none", "[models][anchors]") {
  const Tensor anchors = test::floats({.5f, .5f, .2f, .2f, .1f, .1f, .05f, .05f}, {2, 4});
  const Tensor boxes =
      test::floats({.4f, .4f, .6f, .6f, 3.f, .4f, .4f, .6f, .6f, 7.f, 0, 0, 0, 0, -1.f}, {1, 3, 5});
  const MatchedBoxes matched = match_boxes(anchors, boxes);
  CHECK(matched.label.to_vector<std::int32_t>() == std::vector<std::int32_t>{7, 0});
  CHECK(matched.unmatched.to_vector<std::int32_t>() == std::vector<std::int32_t>{1});
  for (const double value : matched.code.to_vector<double>()) CHECK(value == Approx(0.0).margin(1e-6));
}
