// Metrics, losses and pictures of segmentation, against scikit-learn and NumPy (tests/golden/overlaps.py).
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "data/dataset.h"
#include "data/image_file.h"
#include "tasks/drawing.h"
#include "tasks/segmentation/loss.h"
#include "tasks/segmentation/pictures.h"
#include "tasks/segmentation/scores.h"
#include "tests/golden/hashed.h"
#include "tests/golden/overlaps.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;
using tasks::PixelScores;
using testing::user_error_of;
using Bytes = std::vector<std::uint8_t>;

namespace {

std::unique_ptr<tasks::SegmentationLoss> made(const char* name, Index classes,
                                              const options::Given& given = {}) {
  return tasks::segmentation_losses().make(name, given, classes);
}

Bytes drawn(const std::string& stream, Index count, const std::vector<int>& among) {
  Bytes values;
  for (const std::uint32_t word : hashed(stream, count))
    values.push_back(static_cast<std::uint8_t>(among[word % among.size()]));
  return values;
}

// One pixel in `every` counts for nothing.
Bytes with_ignored(Bytes mask, const std::string& stream, int every) {
  const auto words = hashed(stream + " ignored", static_cast<Index>(mask.size()));
  for (std::size_t i = 0; every > 0 && i < mask.size(); ++i)
    if (words[i] % static_cast<std::uint32_t>(every) == 0) mask[i] = datasets::kIgnored;
  return mask;
}

// Scores of which those of `classes` are the greatest.
Tensor scores_for(const Bytes& classes, const Shape& mask, Index count) {
  std::vector<float> scores(classes.size() * static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i * 7 % 5) - 9.0F;
  for (std::size_t i = 0; i < classes.size(); ++i)
    scores[i * static_cast<std::size_t>(count) + classes[i]] = 3.0F;
  return Tensor::from(scores, mask.inserted(3, count));
}

void check_figures(const std::vector<double>& expected, const std::vector<std::optional<double>>& found) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t c = 0; c < expected.size(); ++c) {
    CAPTURE(c);
    CHECK(found[c].has_value() == !std::isnan(expected[c]));
    if (found[c]) CHECK(*found[c] == Approx(expected[c]).epsilon(1e-14).margin(1e-300));
  }
}

Tensor small_mask(const Bytes& values) { return Tensor::from(values, {2, 4}); }

}  // namespace

TEST_CASE("overlaps of classes are scikit-learn's", "[segmentation]") {
  for (const golden::OverlapCase& c : golden::kOverlapCases) {
    CAPTURE(c.name);
    const std::string name = c.name;
    const Shape shape{c.images, c.height, c.width};
    const Bytes predicted = drawn(name + " predicted", shape.numel(), c.predicted);
    const Tensor truth =
        Tensor::from(with_ignored(drawn(name + " truth", shape.numel(), c.truth), name, c.ignored), shape);
    const Tensor output = scores_for(predicted, shape, c.classes);
    const auto loss = made("cross_entropy_dice", c.classes, {{"dice", 0.0}});
    const double whole = (*loss)(output, truth).item();
    // One matrix of the whole set, whatever its batches.
    for (const Index batch : {Index{100}, Index{2}, Index{1}}) {
      PixelScores scores(*loss, c.classes);
      Bytes classes;
      for (Index i = 0; i < c.images; i += batch) {
        const Index portion = std::min(batch, c.images - i);
        const Tensor found = scores.add(output.rows(i, portion), truth.rows(i, portion));
        for (const auto value : found.to_vector<std::uint8_t>()) classes.push_back(value);
      }
      CHECK(classes == predicted);
      std::vector<std::optional<double>> iou, dice;
      for (const metrics::Overlap& overlap : metrics::overlaps_of(scores.confusion())) {
        iou.push_back(overlap.iou);
        dice.push_back(overlap.dice);
      }
      check_figures(c.iou, iou);
      check_figures(c.dice, dice);
      const tasks::Metrics metrics = scores.metrics();
      CHECK(tasks::metric(metrics, "miou") == Approx(c.mean_iou).epsilon(1e-14));
      CHECK(tasks::metric(metrics, "dice") == Approx(c.mean_dice).epsilon(1e-14));
      CHECK(tasks::metric(metrics, "pixel_accuracy") == Approx(c.accuracy).epsilon(1e-14));
      CHECK(tasks::metric(metrics, "loss") == Approx(whole).epsilon(1e-5));
    }
  }
}

TEST_CASE("the overlaps of two masks by hand", "[segmentation]") {
  const auto loss = made("cross_entropy_dice", 3);
  PixelScores scores(*loss, 3);
  const Shape shape{1, 2, 4};
  scores.add(scores_for({0, 1, 1, 1, 0, 2, 0, 1}, shape, 3),
             Tensor::from(Bytes{0, 0, 1, 1, 0, 2, 2, 1}, shape));
  const auto overlaps = metrics::overlaps_of(scores.confusion());
  CHECK(overlaps[0].iou == 0.5);
  CHECK(overlaps[1].iou == 0.75);
  CHECK(overlaps[2].iou == 0.5);
  CHECK(metrics::mean_iou(overlaps) == Approx(0.583333).margin(5e-7));
  CHECK(*overlaps[0].dice == Approx(0.666667).margin(5e-7));
  CHECK(*overlaps[1].dice == Approx(0.857143).margin(5e-7));
  CHECK(*overlaps[2].dice == Approx(0.666667).margin(5e-7));
}

TEST_CASE("the sweep over thresholds is scikit-learn's", "[segmentation]") {
  const golden::OverlapCase& c = golden::kOverlapCases.back();
  const std::string name = c.name;
  const Shape shape{c.images, c.height, c.width};
  const Tensor truth =
      Tensor::from(with_ignored(drawn(name + " truth", shape.numel(), c.truth), name, c.ignored), shape);
  std::vector<float> one = signed_unit(name + " scores", {shape.numel()}).to_vector<float>(), two;
  for (float& z : one) {
    z *= 4.0F;
    two.insert(two.end(), {0.5F, z + 0.5F});  // whose difference is the same
  }
  const auto bce = made("bce_dice", 2), both = made("cross_entropy_dice", 2);
  PixelScores by_one(*bce, 2), by_two(*both, 2);
  by_one.add(Tensor::from(one, shape.inserted(3, 1)), truth);
  by_two.add(Tensor::from(two, shape.inserted(3, 2)), truth);
  for (const PixelScores* scores : {&by_one, &by_two}) {
    const std::vector<double> sweep = scores->iou_by_threshold();
    REQUIRE(sweep.size() == golden::kIouByThreshold.size());
    for (std::size_t i = 0; i < sweep.size(); ++i)
      CHECK(sweep[i] == Approx(golden::kIouByThreshold[i]).epsilon(1e-14));
    CHECK(*metrics::overlaps_of(scores->confusion())[1].iou == Approx(golden::kIouByThreshold[9]));
  }
  const auto three = made("cross_entropy_dice", 3);
  CHECK(PixelScores(*three, 3).iou_by_threshold().empty());
}

TEST_CASE("scores that are no numbers are wrong, equal ones are the first class", "[segmentation]") {
  const auto loss = made("cross_entropy_dice", 2);
  PixelScores scores(*loss, 2);
  const float nan = std::nanf("");
  scores.add(Tensor::from({nan, 1.0F, 0.0F, nan, 1.0F, 1.0F, 0.0F, 1.0F}, {1, 1, 4, 2}),
             Tensor::from(Bytes{1, 0, 0, 255}, {1, 1, 4}));
  CHECK(scores.confusion().counts == std::vector<std::int64_t>{1, 1, 1, 0});
  const auto bce = made("bce_dice", 2);
  PixelScores binary(*bce, 2);
  binary.add(Tensor::from({nan, 0.0F, 0.25F, nan}, {1, 1, 4, 1}), Tensor::from(Bytes{0, 0, 1, 1}, {1, 1, 4}));
  CHECK(binary.confusion().counts == std::vector<std::int64_t>{1, 1, 1, 1});
  PixelScores nothing(*loss, 2);
  CHECK(tasks::metric(nothing.metrics(), "miou") == 0.0);
  nothing.add(Tensor::zeros({1, 1, 4, 2}), Tensor::from(Bytes(4, datasets::kIgnored), {1, 1, 4}));
  CHECK(tasks::metric(nothing.metrics(), "loss") == 0.0);
  CHECK(tasks::metric(nothing.metrics(), "pixel_accuracy") == 0.0);
}

TEST_CASE("losses of masks are what NumPy computes", "[segmentation]") {
  const auto& shape = golden::kLossShape;
  const Shape pixels{shape[0], shape[1], shape[2]};
  const Index classes = shape[3];
  const std::vector<float> unit = signed_unit("loss scores", {pixels.numel() * classes}).to_vector<float>();
  const Bytes mask = with_ignored(drawn("loss masks", pixels.numel(), {0, 1, 2}), "loss", 6);
  std::vector<float> all, first;
  Bytes second;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    all.push_back(4.0F * unit[i]);
    if (i % 3 == 0) first.push_back(4.0F * unit[i]);
  }
  for (const auto value : mask)
    second.push_back(value == datasets::kIgnored ? value : static_cast<std::uint8_t>(value == 1));
  const auto expected = [](const std::string& name) {
    for (const auto& each : golden::kMaskLosses)
      if (each.name == name) return Approx(each.value).epsilon(2e-6);
    FAIL("there is no " << name);
    return Approx(0.0);
  };
  const auto of_classes = [&](const options::Given& given) {
    return (*made("cross_entropy_dice", classes, given))(Tensor::from(all, pixels.inserted(3, classes)),
                                                         Tensor::from(mask, pixels))
        .item();
  };
  const auto of_two = [&](const options::Given& given) {
    return (*made("bce_dice", 2, given))(Tensor::from(first, pixels.inserted(3, 1)),
                                         Tensor::from(second, pixels))
        .item();
  };
  CHECK(of_classes({}) == expected("cross_entropy_dice"));
  CHECK(of_classes({{"cross_entropy", 0.25},
                    {"dice", 2.0},
                    {"squared", true},
                    {"epsilon", 1.0},
                    {"class_weights", std::vector<double>{0.5, 2.0, 3.0}}}) ==
        expected("cross_entropy_dice weighted"));
  CHECK(of_classes({{"dice", 0.0}}) == expected("cross_entropy_dice without dice"));
  CHECK(of_two({}) == expected("bce_dice"));
  CHECK(of_two({{"bce", 0.5}, {"dice", 3.0}, {"squared", true}, {"epsilon", 1.0}}) ==
        expected("bce_dice squared"));
  CHECK(of_two({{"bce", 0.0}}) == expected("bce_dice of dice alone"));
  CHECK(of_two({{"bce_until", 0.72}}) == expected("bce_dice of dice alone"));
  CHECK(of_two({{"bce_until", 0.71}}) == expected("bce_dice"));
}

TEST_CASE("losses of masks refuse what they cannot mean", "[segmentation]") {
  CHECK_THAT(user_error_of([] { made("bce_dice", 3); }), Contains("two classes") && Contains("has 3"));
  CHECK_THAT(user_error_of([] {
               made("cross_entropy_dice", 3, {{"class_weights", std::vector<double>{1.0, 2.0}}});
             }),
             Contains("has 2 weights, the data has 3 classes"));
  CHECK_FALSE(user_error_of([] {
                made("cross_entropy_dice", 2, {{"cross_entropy", 0.0}, {"dice", 0.0}});
              }).empty());
  CHECK_FALSE(user_error_of([] { made("bce_dice", 2, {{"bce_until", 0.3}, {"dice", 0.0}}); }).empty());
  const auto loss = made("cross_entropy_dice", 2);
  CHECK_THAT(user_error_of([&] {
               (*loss)(Tensor::zeros({1, 2, 2, 3}), Tensor::from(Bytes(4, 0), {1, 2, 2}));
             }),
             Contains("need 2 scores per pixel, this model returns [1,2,2,3]"));
  CHECK_THAT(user_error_of([&] {
               (*loss)(Tensor::zeros({1, 2, 1, 2}), Tensor::from(Bytes(4, 0), {1, 2, 2}));
             }),
             Contains("this model returns [1,2,1,2]"));
}

TEST_CASE("masks are shown in the colours of PASCAL VOC", "[segmentation]") {
  const auto colours = tasks::class_colours();
  CHECK(colours[0] == datasets::Colour{0, 0, 0});
  CHECK(colours[1] == datasets::Colour{128, 0, 0});
  CHECK(colours[3] == datasets::Colour{128, 128, 0});
  CHECK(colours[15] == datasets::Colour{192, 128, 128});
  CHECK(colours[20] == datasets::Colour{0, 64, 128});
  CHECK(colours[255] == datasets::Colour{224, 224, 192});

  const Tensor mask = small_mask({0, 1, 2, 3, 0, 0, 20, 255});
  const Bytes shown = tasks::coloured(mask).to_vector<std::uint8_t>();
  CHECK(Bytes(shown.begin() + 3, shown.begin() + 6) == Bytes{128, 0, 0});
  CHECK(Bytes(shown.begin() + 18, shown.begin() + 21) == Bytes{0, 64, 128});
  // Of grey: what is no class of its own stays as it was, the rest is halfway to its colour.
  const Tensor grey = Tensor::from(Bytes(8, 101), {2, 4, 1});
  const Bytes over = tasks::overlay(grey, mask).to_vector<std::uint8_t>();
  REQUIRE(over.size() == 24);
  CHECK(Bytes(over.begin(), over.begin() + 6) == Bytes{101, 101, 101, 115, 51, 51});
  CHECK_THROWS_AS(tasks::overlay(grey, Tensor::from(Bytes(6), {2, 3})), InternalError);
}

TEST_CASE("examples are image, truth and prediction beside each other", "[segmentation]") {
  tasks::ExampleSheet sheet(2), none(0);
  CHECK(none.full());
  CHECK(none.png().empty());
  CHECK(sheet.png().empty());
  const Tensor image = Tensor::from(Bytes(8, 77), {2, 4, 1}), truth = small_mask({0, 0, 0, 1, 0, 0, 0, 0}),
               prediction = small_mask({0, 0, 0, 0, 0, 0, 0, 2});
  for (int i = 0; i < 3; ++i) sheet.add(image, truth, prediction);
  CHECK(sheet.full());
  const std::string png = sheet.png();
  const Tensor shown = datasets::decode_image(std::as_bytes(std::span(png.data(), png.size())), "sheet");
  // Two rows of 2×4 pixels, 32 times as large, with gaps of 4.
  REQUIRE(shown.shape() == Shape{2 * 64 + 4, 3 * 128 + 2 * 4, 3});
  const auto pixel = [&](Index y, Index x) {
    const std::uint8_t* at = shown.data<std::uint8_t>() + (y * shown.size(1) + x) * 3;
    return Bytes(at, at + 3);
  };
  CHECK(pixel(0, 0) == Bytes{77, 77, 77});
  CHECK(pixel(0, 129) == Bytes{255, 255, 255});
  CHECK(pixel(31, 132 + 96) == Bytes{128, 0, 0});
  CHECK(pixel(32, 132 + 96) == Bytes{0, 0, 0});
  CHECK(pixel(32, 264 + 96) == Bytes{0, 128, 0});
  CHECK(pixel(68 + 63, 264 + 127) == Bytes{0, 128, 0});
  CHECK(pixel(65, 5) == Bytes{255, 255, 255});
}
