// SSD's loss against loops in double precision; boxes of several images; drawn boxes.
#include "models/multibox.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/boxes.h"
#include "autograd/ops/loss.h"
#include "core/error.h"
#include "models/anchors.h"
#include "models/box_finder.h"
#include "tasks/detection/bitmap_font.h"
#include "tasks/detection/pictures.h"
#include "tests/support/tensors.h"

using namespace tandem;
using models::MultiboxOptions;

namespace {

constexpr Index kImages = 3, kClasses = 4, kObjects = 2;

models::AnchorGrid tiny_grid() {
  return {.image_size = 64,
          .levels = {{.cells = 4, .size = 16, .next_size = 32, .ratios = {2}},
                     {.cells = 2, .size = 32, .next_size = 56, .ratios = {2}}}};
}

// The last image has no object.
Tensor true_boxes() {
  return test::floats({.1f, .1f, .4f, .5f, 1, .5f, .5f, .9f, .8f, 3,  //
                       .2f, .3f, .9f, .9f, 2, 0,   0,   0,   0,   0,  //
                       0,   0,   0,   0,   0, 0,   0,   0,   0,   0},
                      {kImages, kObjects, 5});
}

// No two alike: of equal losses the lower anchor is mined, which differences do not show.
Tensor numbers(const Shape& shape, int step) {
  std::vector<float> values;
  for (Index i = 0; i < shape.numel(); ++i)
    values.push_back(static_cast<float>((i * i * step + 17 * i) % 10007) / 2500.0F - 2.0F);
  return test::floats(values, shape);
}

double expected_loss(const std::vector<double>& scores, const std::vector<double>& codes,
                     const Tensor& anchors, const MultiboxOptions& options) {
  const MatchedBoxes matched = match_boxes(anchors, true_boxes(), options.match());
  const auto labels = matched.label.to_vector<std::int32_t>();
  const auto wanted = matched.code.to_vector<double>();
  const auto count = static_cast<std::size_t>(anchors.size(0));
  double batch = 0, by_image = 0, positives = 0;
  for (std::size_t n = 0; n < kImages; ++n) {
    double sum = 0;
    std::size_t own = 0;
    std::vector<double> others;
    for (std::size_t a = 0; a < count; ++a) {
      const double* const row = scores.data() + (n * count + a) * kClasses;
      const double most = *std::max_element(row, row + kClasses);
      double total = 0;
      for (Index c = 0; c < kClasses; ++c) total += std::exp(row[c] - most);
      const std::int32_t label = labels[n * count + a];
      const double entropy = std::log(total) + most - row[label];
      if (label == 0) {
        others.push_back(entropy);
        continue;
      }
      ++own;
      sum += entropy;
      for (std::size_t k = 0; k < 4; ++k) {
        const double distance = std::abs(codes[(n * count + a) * 4 + k] - wanted[(n * count + a) * 4 + k]);
        sum += distance < 1 ? distance * distance / 2 : distance - 0.5;
      }
    }
    std::ranges::sort(others, std::greater());
    const auto mined = std::max(static_cast<std::size_t>(options.min_negatives),
                                static_cast<std::size_t>(options.negatives_per_positive) * own);
    for (std::size_t i = 0; i < std::min(mined, others.size()); ++i) sum += others[i];
    batch += sum;
    by_image += sum / static_cast<double>(std::max<std::size_t>(own, 1)) / kImages;
    positives += static_cast<double>(own);
  }
  CHECK(positives > 3);
  return options.normalize == LossShare::batch ? batch / positives : by_image;
}

}  // namespace

TEST_CASE("the multibox loss is that of loops", "[detection]") {
  const Tensor anchors = tiny_grid().boxes();
  const Index count = anchors.size(0);
  const Tensor scores = numbers({kImages, count, kClasses}, 7919), codes = numbers({kImages, count, 4}, 4513);
  const Tensor on_device = anchors.to(test::test_device());
  for (const LossShare share : {LossShare::batch, LossShare::image}) {
    for (const Index least : {Index{0}, Index{5}}) {
      CAPTURE(static_cast<int>(share), least);
      const MultiboxOptions options{.min_negatives = least, .normalize = share};
      const auto loss = models::multibox_loss({scores, codes}, on_device, true_boxes(), options);
      const double expected =
          expected_loss(scores.to_vector<double>(), codes.to_vector<double>(), on_device, options);
      CHECK(loss.total.item() == Approx(expected).epsilon(1e-5));
      CHECK(loss.total.item() == Approx(loss.classes.item() + loss.boxes.item()).epsilon(1e-6));
      CHECK(loss.unmatched.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 0, 0});
    }
  }
}

TEST_CASE("gradients of the multibox loss are those of differences", "[detection]") {
  const Tensor anchors = tiny_grid().boxes().to(test::test_device());
  const Index count = anchors.size(0);
  const Tensor scores = leaf(numbers({kImages, count, kClasses}, 7919)),
               codes = leaf(numbers({kImages, count, 4}, 4513));
  const MultiboxOptions options{.normalize = LossShare::image};
  backward(models::multibox_loss({scores, codes}, anchors, true_boxes(), options).total);
  const auto check = [&](const Tensor& tensor, bool is_score) {
    const auto gradient = gradient_of(tensor).to_vector<double>();
    auto values = tensor.detach().to_vector<double>();
    const auto other = (is_score ? codes : scores).detach().to_vector<double>();
    int moved = 0;
    for (std::size_t at = 0; at < values.size(); at += 5) {
      CAPTURE(is_score, at);
      constexpr double kStep = 1e-5;
      const double before = values[at];
      const auto loss = [&](double value) {
        values[at] = value;
        return is_score ? expected_loss(values, other, anchors, options)
                        : expected_loss(other, values, anchors, options);
      };
      const double expected = (loss(before + kStep) - loss(before - kStep)) / (2 * kStep);
      values[at] = before;
      CHECK(gradient[at] == Approx(expected).margin(2e-5));
      moved += expected != 0 ? 1 : 0;
    }
    CHECK(moved > 0);
  };
  check(scores, true);
  check(codes, false);
}

// Values that PyTorch gave in FP64: tests/golden/ssd_vectors.py.
TEST_CASE("the multibox loss of given matches is the published one", "[detection]") {
  constexpr Index kAnchors = 6, kLogits = 3;
  const auto made = [](Index each, auto value) {
    std::vector<float> values;
    for (Index n = 0; n < kImages; ++n)
      for (Index a = 0; a < kAnchors; ++a)
        for (Index i = 0; i < each; ++i) values.push_back(value(n, a, i));
    return test::floats(values, {kImages, kAnchors, each});
  };
  const auto part = [](Index of, Index modulus, float unit) {
    return static_cast<float>(of % modulus) / unit;
  };
  const Tensor label =
      Tensor::from(std::vector<std::int32_t>{0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 2, 0, 0},
                   {kImages, kAnchors}, test::test_device());
  const MatchedBoxes matched{
      .label = label,
      .code = made(4, [&](Index n, Index a, Index k) { return part(2 * n + a + k, 5, 2) - 1; }),
      .unmatched = Tensor::from(std::vector<std::int32_t>(kImages, 0), {kImages}, test::test_device())};
  const models::AnchorOutput output{
      leaf(made(kLogits, [&](Index n, Index a, Index c) { return part(7 * n + 3 * a + 5 * c, 11, 5) - 1; })),
      leaf(made(4, [&](Index n, Index a, Index k) { return part(n + 2 * a + 3 * k, 7, 4) - 0.75f; }))};

  // The second image has no object and teaches nothing, the third has less than three others for each.
  const Tensor each = cross_entropy(output.scores.detach(), label, {.reduce = Reduce::none});
  const auto weight = mine_negatives(each, label).class_weight.to_vector<float>();
  const auto labels = label.to_vector<std::int32_t>();
  std::vector<std::vector<Index>> mined(kImages);
  for (std::size_t at = 0; at < weight.size(); ++at)
    if (weight[at] != 0 && labels[at] == 0) mined[at / kAnchors].push_back(static_cast<Index>(at % kAnchors));
  CHECK(mined == std::vector<std::vector<Index>>{{0, 4, 5}, {}, {1, 4, 5}});

  constexpr std::size_t kAnchor = 1;  // of the first image
  const auto check_gradients = [&](double share) {
    const auto scores = gradient_of(output.scores).to_vector<double>(),
               codes = gradient_of(output.codes).to_vector<double>();
    constexpr std::array of_scores{.055102338, .149783684, -.204886021};
    constexpr std::array of_codes{.0625, .125, -.25, -.1875};
    for (std::size_t c = 0; c < of_scores.size(); ++c)
      CHECK(scores[kAnchor * kLogits + c] == Approx(share * of_scores[c]).epsilon(1e-6));
    for (std::size_t k = 0; k < of_codes.size(); ++k)
      CHECK(codes[kAnchor * 4 + k] == Approx(share * of_codes[k]).epsilon(1e-6));
  };
  const auto of_batch = models::multibox_loss(output, matched, {.normalize = LossShare::batch});
  CHECK(of_batch.classes.item() == Approx(3.58384017).epsilon(3e-7));
  CHECK(of_batch.boxes.item() == Approx(1.6015625).epsilon(3e-7));
  CHECK(of_batch.total.item() == Approx(5.18540267).epsilon(3e-7));
  backward(of_batch.total);
  check_gradients(1);
  clear_gradient_of(output.scores);
  clear_gradient_of(output.codes);
  const auto by_image = models::multibox_loss(output, matched, {.normalize = LossShare::image});
  CHECK(by_image.total.item() == Approx(4.10060392).epsilon(3e-7));
  backward(by_image.total);
  check_gradients(4.0 / 3.0);  // of one anchor and three images; of the batch's four anchors before
}

TEST_CASE("every image of a batch has its own boxes", "[detection]") {
  const Tensor anchors = tiny_grid().boxes();
  const auto count = static_cast<std::size_t>(anchors.size(0));
  std::vector<float> scores(2 * count * kClasses, 0.0F);
  // Sure of class 2 at anchor 5 of the first image, of class 1 at anchor 70 of the second.
  for (std::size_t a = 0; a < 2 * count; ++a) scores[a * kClasses] = 12.0F;
  scores[5 * kClasses] = 0, scores[5 * kClasses + 2] = 12;
  scores[(count + 70) * kClasses] = 0, scores[(count + 70) * kClasses + 1] = 12;
  const models::AnchorOutput output{Tensor::from(scores, {2, static_cast<Index>(count), kClasses}),
                                    Tensor::zeros({2, static_cast<Index>(count), 4})};
  const auto found = models::find_boxes(output, anchors, {.score = 0.1});
  REQUIRE(found.size() == 2);
  REQUIRE(found[0].size() == 1);
  REQUIRE(found[1].size() == 1);
  CHECK(found[0][0].label == 2);
  CHECK(found[1][0].label == 1);
  CHECK(found[0][0].score > 0.99F);
  const auto grid = anchors.to_vector<float>();
  const auto check = [&](const models::UnitBox& box, std::size_t anchor) {
    const float* const at = grid.data() + 4 * anchor;
    CHECK(box.x1 == Approx(std::max(0.0F, at[0] - at[2] / 2)).margin(1e-6));
    CHECK(box.y2 == Approx(std::min(1.0F, at[1] + at[3] / 2)).margin(1e-6));
  };
  check(found[0][0].box, 5);
  check(found[1][0].box, 70);
}

TEST_CASE("boxes are drawn with their captions", "[detection]") {
  const Tensor image = Tensor::zeros({100, 120, 3}, {.dtype = DType::u8});
  const Tensor drawn =
      tasks::with_boxes(image, std::vector<tasks::DrawnBox>{{{.25F, .5F, .75F, .9F}, 1, "cat 97%"}});
  REQUIRE(drawn.shape() == image.shape());
  const auto pixel = [&](Index y, Index x) {
    const std::uint8_t* const at = drawn.data<std::uint8_t>() + 3 * (y * 120 + x);
    return std::array<int, 3>{at[0], at[1], at[2]};
  };
  const std::array<int, 3> colour = pixel(50, 60), black{0, 0, 0};
  CHECK(colour != black);
  CHECK(pixel(89, 60) == colour);
  CHECK(pixel(70, 30) == colour);
  CHECK(pixel(70, 89) == colour);
  CHECK(pixel(70, 60) == black);  // inside
  CHECK(pixel(70, 29) == black);  // outside
  int letters = 0, ground = 0;
  for (Index y = 41; y < 50; ++y) {
    for (Index x = 30; x < 72; ++x) {
      letters += pixel(y, x) != black && pixel(y, x) != colour ? 1 : 0;
      ground += pixel(y, x) == colour ? 1 : 0;
    }
  }
  CHECK(letters > 40);
  CHECK(ground > 100);
  CHECK(image.to_vector<float>() == std::vector<float>(100 * 120 * 3, 0.0F));  // the original stays
}
