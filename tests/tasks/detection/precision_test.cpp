// FP32 parts of detection under any precision: matching, mining, the loss with its gradients, decoding and
// NMS have equal bits inside and outside each autocast scope.
#include <array>
#include <bit>
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "core/random.h"
#include "models/box_finder.h"
#include "models/multibox.h"
#include "models/ssd.h"
#include "models/ssd_bodies.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using amp::Level;
using amp::Precision;

namespace {

constexpr Index kImages = 2, kClasses = 4, kSide = 64;

std::shared_ptr<models::Ssd> small_detector() {
  const RandomScope random(7, 0, 0);
  auto ssd = std::make_shared<models::Ssd>(
      std::make_shared<models::SmallDetectorBody>(4, 3),
      models::SsdOptions{.num_classes = kClasses,
                         .anchors = {.image_size = kSide,
                                     .levels = {{.cells = 8, .size = 12, .next_size = 20, .ratios = {2}},
                                                {.cells = 4, .size = 20, .next_size = 32, .ratios = {2}},
                                                {.cells = 2, .size = 32, .next_size = 48, .ratios = {2}}}}});
  ssd->to(test::test_device());
  return ssd;
}

Tensor objects() {
  return test::floats({.1f, .12f, .43f, .51f, 1, .5f, .53f, .91f, .8f, 3,  //
                       .2f, .3f,  .9f,  .87f, 2, 0,   0,    0,    0,   0},
                      {kImages, 2, 5});
}

struct Case {
  std::string name;
  Precision precision;
};

std::vector<Case> precisions() {
  // All that the loss and the coding of boxes are made of.
  const std::vector<std::string> ops{"cross_entropy", "smooth_l1_loss", "mul",   "add", "sub",
                                     "sum",           "reshape",        "clamp", "exp", "softmax"};
  std::vector<Case> cases;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Precision o1{.level = Level::O1, .dtype = dtype};
    const auto with = [&](const std::string& what, const Precision& precision) {
      cases.push_back({fmt::format("{} {}", what, name_of(dtype)), precision});
    };
    const auto changed = [](Precision precision, auto change) {
      change(precision);
      return precision;
    };
    with("O1", o1);
    with("allow", changed(o1, [&](Precision& p) { p.lists.allow = ops; }));
    with("infer", changed(o1, [&](Precision& p) { p.lists.infer = ops; }));
    with("deny", changed(o1, [&](Precision& p) { p.lists.deny = ops; }));
    for (const DType layer : {DType::f32, DType::f16, DType::bf16})
      with(fmt::format("layers {}", name_of(layer)), changed(o1, [&](Precision& p) {
             p.layers = {{"", layer}, {"head", dtype}};
           }));
    with("O2", Precision::o2(dtype));
    with("O3", Precision::o3(dtype));
    with("O2 allow", changed(Precision::o2(dtype), [&](Precision& p) { p.lists.allow = ops; }));
  }
  return cases;
}

std::vector<std::uint32_t> bits_of(const Tensor& tensor) {
  std::vector<std::uint32_t> bits;
  for (const float value : tensor.to_vector<float>()) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

struct Made {
  std::vector<std::vector<std::uint32_t>> bits;  // matches, loss, boxes that are kept
  Tensor scores, codes;                          // gradients, which are 0 but at positives and mined anchors
};

// What is made of outputs.
Made made_of(const models::AnchorOutput& output, const Tensor& anchors) {
  const models::MultiboxOptions options;
  const MatchedBoxes matched = match_boxes(anchors, objects(), options.match());
  const models::AnchorOutput leaves{leaf(output.scores.detach()), leaf(output.codes.detach())};
  const auto loss = models::multibox_loss(leaves, anchors, objects(), options);
  backward(loss.total);
  Made made{.bits = {}, .scores = gradient_of(leaves.scores), .codes = gradient_of(leaves.codes)};
  for (const Tensor& part : {loss.total, loss.classes, loss.boxes}) {
    CHECK(part.dtype() == DType::f32);
    made.bits.push_back(bits_of(part));
  }
  for (const Tensor& match : {matched.label, matched.code, loss.unmatched})
    made.bits.push_back(bits_of(match));
  std::vector<float> kept;
  for (const auto& image : models::find_boxes(output, anchors, {.score = 0.2})) {
    for (const models::FoundBox& box : image) {
      kept.insert(kept.end(), {box.box.x1, box.box.y1, box.box.x2, box.box.y2, box.score});
      kept.insert(kept.end(), {static_cast<float>(box.label), static_cast<float>(box.anchor)});
    }
  }
  CHECK(kept.size() > 7);
  made.bits.push_back(bits_of(test::floats(kept, {static_cast<Index>(kept.size())})));
  return made;
}

void check_same(const Made& made, const Made& expected) {
  const bool same = made.bits == expected.bits;
  CHECK(same);
  const bool same_scores = bits_of(made.scores) == bits_of(cast(expected.scores, made.scores.dtype()));
  CHECK(same_scores);
  const bool same_codes = bits_of(made.codes) == bits_of(cast(expected.codes, made.codes.dtype()));
  CHECK(same_codes);
}

}  // namespace

TEST_CASE("boxes and the loss of detectors have the same bits in every precision", "[detection]") {
  const auto ssd = small_detector();
  const Tensor& anchors = ssd->anchors();
  const auto anchor_bits = bits_of(anchors);
  const Index count = anchors.size(0);
  const models::AnchorOutput given{test::random_tensor({kImages, count, kClasses}, DType::f32, 3, -4.0, 4.0),
                                   test::random_tensor({kImages, count, 4}, DType::f32, 5, -2.0, 2.0)};
  const Made expected = made_of(given, anchors);
  const Tensor images = test::random_tensor({kImages, kSide, kSide, 3}, DType::f32, 11);
  int lowered = 0;
  for (const auto& [name, precision] : precisions()) {
    INFO(name);
    models::AnchorOutput own;
    Made of_own;
    {
      const amp::Autocast autocast(precision, *ssd);
      check_same(made_of(given, anchors), expected);
      own = (*ssd)(images);
      of_own = made_of(own, anchors);
    }
    CHECK(bits_of(anchors) == anchor_bits);
    // Outputs of the network may be of 16 bits; of them is made what is made of them widened.
    lowered += is_16bit(own.scores.dtype()) ? 1 : 0;
    check_same(of_own, made_of({cast(own.scores.detach(), DType::f32), cast(own.codes.detach(), DType::f32)},
                               anchors));
  }
  CHECK(lowered > 10);
}

TEST_CASE("matching and mining stay FP32 under any list", "[detection]") {
  for (const std::string op : {"match_boxes", "mine_negatives"}) {
    Precision precision = Precision::amp_bf16();
    precision.lists.allow = {op};
    CHECK_FAILS(UserError, amp::check(precision), "precision does not apply to \"" + op + "\"");
  }
}
