// Rows of matching and mining, against loops over all pairs and a sort.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/ops/boxes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "core/shapes_backend.h"
#include "tests/ops/harness.h"
#include "tests/ops/row.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

namespace tandem::test {

namespace {

constexpr Draw kShare{.low = 0.0, .high = 1.0, .dtype = DType::f32};
constexpr Draw kLabel{.low = 0.0, .high = 3.0, .whole = true, .dtype = DType::f32};

std::vector<float> host_values(const Tensor& x) {
  return x.device() == kShapes ? std::vector<float>{} : x.to_vector<float>();
}

// What is made of the numbers of a row without ops, which would be of 16 bits where they are told so.
template <class T, class Make>
Tensor made_of(const Tensor& x, const Shape& shape, Make make) {
  if (x.device() == kShapes) return Tensor::empty(shape, {.dtype = dtype_of<T>(), .device = kShapes});
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = make(i);
  return Tensor::from(values, shape, x.device());
}

// Anchors of 0.1 to 0.5 of the image, and objects of 0.1 to 0.4, from numbers in [0,1]; of what is absent
// nothing.
Tensor anchors_from(const Tensor& x) {
  if (!x.defined()) return {};
  const std::vector<float> from = host_values(x);
  return made_of<float>(x, x.shape(),
                        [&](std::size_t i) { return i % 4 < 2 ? from[i] : from[i] * 0.4f + 0.1f; });
}
Tensor boxes_from(const Tensor& x, const Tensor& label) {
  if (!x.defined() || !label.defined()) return {};
  const std::vector<float> from = host_values(x), labels = host_values(label);
  return made_of<float>(x, x.shape().with(2, 5), [&](std::size_t i) {
    const std::size_t object = i / 5, at = i % 5;
    if (at == 4) return labels[object];
    const float first = from[4 * object + at % 2] * 0.6f;
    return at < 2 ? first : first + (from[4 * object + at] * 0.3f + 0.1f);
  });
}
// Three of eight are of objects.
Tensor labels_from(const Tensor& x) {
  if (!x.defined()) return {};
  const std::vector<float> from = host_values(x);
  return made_of<std::int32_t>(
      x, x.shape(), [&](std::size_t i) { return static_cast<std::int32_t>(std::max(from[i] - 2.0f, 0.0f)); });
}

struct Pairs {
  const Arrays& x;
  Index anchors = x[0].shape[0], objects = x[1].shape[1];

  double overlap(Index n, Index a, Index g) const {
    const double w = x[0](a, 2) * 0.4 + 0.1, h = x[0](a, 3) * 0.4 + 0.1;
    const double ax = x[0](a, 0) - w / 2, ay = x[0](a, 1) - h / 2;
    const double bx = x[1].at({n, g, 0}) * 0.6, by = x[1].at({n, g, 1}) * 0.6;
    const double bw = x[1].at({n, g, 2}) * 0.3 + 0.1, bh = x[1].at({n, g, 3}) * 0.3 + 0.1;
    const double sx = std::min(ax + w, bx + bw) - std::max(ax, bx),
                 sy = std::min(ay + h, by + bh) - std::max(ay, by);
    const double shared = std::max(sx, 0.0) * std::max(sy, 0.0);
    return shared / (w * h + bw * bh - shared);
  }
  bool there(Index n, Index g) const { return x[2].at({n, g, 0}) > 0.0; }

  // The object of each anchor, -1: none.
  std::vector<Index> matched(Index n, BoxMatching matching, double threshold) const {
    std::vector<Index> holder(static_cast<std::size_t>(anchors), -1);
    if (matching == BoxMatching::greedy) greedily(n, holder);
    for (Index a = 0; a < anchors; ++a) {
      if (holder[static_cast<std::size_t>(a)] >= 0) continue;
      Index best = -1;
      for (Index g = 0; g < objects; ++g)
        if (there(n, g) && (best < 0 || overlap(n, a, g) > overlap(n, a, best))) best = g;
      if (best >= 0 && overlap(n, a, best) >= threshold) holder[static_cast<std::size_t>(a)] = best;
    }
    for (Index g = 0; g < objects && matching == BoxMatching::argmax; ++g) {
      Index best = 0;
      for (Index a = 1; a < anchors; ++a)
        if (overlap(n, a, g) > overlap(n, best, g)) best = a;
      if (there(n, g)) holder[static_cast<std::size_t>(best)] = g;
    }
    return holder;
  }

 private:
  void greedily(Index n, std::vector<Index>& holder) const {
    std::vector<char> done(static_cast<std::size_t>(objects));
    for (;;) {
      Index best_a = -1, best_g = -1;
      for (Index a = 0; a < anchors; ++a) {
        for (Index g = 0; g < objects; ++g) {
          if (holder[static_cast<std::size_t>(a)] >= 0 || done[static_cast<std::size_t>(g)] || !there(n, g))
            continue;
          if (best_a < 0 || overlap(n, a, g) > overlap(n, best_a, best_g)) best_a = a, best_g = g;
        }
      }
      if (best_a < 0 || overlap(n, best_a, best_g) <= 1e-6) return;
      holder[static_cast<std::size_t>(best_a)] = best_g;
      done[static_cast<std::size_t>(best_g)] = 1;
    }
  }
};

Row match_row(BoxMatching matching, bool codes) {
  const BoxMatchOptions options{.matching = matching, .threshold = 0.3f};
  return {
      .op = "match_boxes",
      .variant = std::string(matching == BoxMatching::greedy ? "greedy" : "argmax") + (codes ? " codes" : ""),
      .run =
          [=](const TensorList& x) {
            const MatchedBoxes matched = match_boxes(anchors_from(x[0]), boxes_from(x[1], x[2]), options);
            return codes ? matched.code : cast(matched.label, DType::f32);
          },
      .oracle =
          [=](const Arrays& x) {
            const Pairs pairs{x};
            const Index images = x[1].shape[0];
            Array label(Shape{images, pairs.anchors}), code(Shape{images, pairs.anchors, 4});
            for (Index n = 0; n < images; ++n) {
              const auto holder = pairs.matched(n, matching, 0.3);
              for (Index a = 0; a < pairs.anchors; ++a) {
                const Index g = holder[static_cast<std::size_t>(a)];
                if (g < 0) continue;
                label.at({n, a}) = x[2].at({n, g, 0});
                for (Index i = 0; i < 2; ++i) {
                  const double extent = x[1].at({n, g, 2 + i}) * 0.3 + 0.1, own = x[0](a, 2 + i) * 0.4 + 0.1;
                  const double centre = x[1].at({n, g, i}) * 0.6 + extent / 2;
                  code.at({n, a, i}) = (centre - x[0](a, i)) / own / 0.1;
                  code.at({n, a, 2 + i}) = std::log(extent / own) / 0.2;
                }
              }
            }
            return codes ? code : label;
          },
      .cases = {{{40, 4}, {3, 4, 4}, {3, 4, 1}},
                {{7, 4}, {2, 9, 4}, {2, 9, 1}},
                {{300, 4}, {1, 1, 4}, {1, 1, 1}}},
      .draws = {kShare, kShare, kLabel},
      .result = Result::f32,
      .gradient = false,
      .slack = 4.0};  // differences of coordinates, and their logarithms, near 0
}

Row mine_row(MiningOptions options, const char* variant, bool box) {
  return {.op = "mine_negatives",
          .variant = variant,
          .run =
              [=](const TensorList& x) {
                const MinedAnchors mined = mine_negatives(x[0], labels_from(x[1]), options);
                return box ? mined.box_weight : mined.class_weight;
              },
          .oracle =
              [=](const Arrays& x) {
                const Index images = x[0].shape[0], anchors = x[0].shape[1];
                Array weight(x[0].shape);
                const auto object = [&](Index n, Index a) { return x[1](n, a) > 2.0; };
                std::vector<Index> positives(static_cast<std::size_t>(images));
                for (Index n = 0; n < images; ++n)
                  for (Index a = 0; a < anchors; ++a) positives[static_cast<std::size_t>(n)] += object(n, a);
                const Index all = std::accumulate(positives.begin(), positives.end(), Index{0});
                for (Index n = 0; n < images; ++n) {
                  const Index own = positives[static_cast<std::size_t>(n)];
                  std::vector<Index> order;
                  for (Index a = 0; a < anchors; ++a)
                    if (!object(n, a)) order.push_back(a);
                  std::ranges::stable_sort(order, [&](Index a, Index b) { return x[0](n, a) > x[0](n, b); });
                  const Index wanted =
                      std::max(static_cast<Index>(options.negatives_per_positive * static_cast<double>(own)),
                               options.min_negatives);
                  order.resize(std::min(order.size(), static_cast<std::size_t>(wanted)));
                  const double share = 1.0 / static_cast<double>(options.share == LossShare::batch
                                                                     ? std::max<Index>(all, 1)
                                                                     : images * std::max<Index>(own, 1));
                  for (Index a = 0; a < anchors; ++a) weight(n, a) = object(n, a) ? share : 0.0;
                  for (const Index a : order) weight(n, a) = box ? 0.0 : share;
                }
                return weight;
              },
          .cases = {{{3, 40}, {3, 40}}, {{1, 7}, {1, 7}}, {{2, 1000}, {2, 1000}}},
          // Losses of which many are equal.
          .draws = {{.low = 0, .high = 20, .whole = true, .dtype = DType::f32},
                    {.low = -3, .high = 5, .whole = true, .dtype = DType::f32}},
          .result = Result::f32,
          .gradient = false};
}

}  // namespace

Rows boxes_rows() {
  Row first = match_row(BoxMatching::argmax, false);
  first.refusals = {{"anchors must be f32 [A,4]",
                     [=] {
                       match_boxes(zeros({3, 5}), zeros({1, 2, 5}));
                     }},
                    {"with A >= 1",
                     [=] {
                       match_boxes(zeros({0, 4}), zeros({1, 2, 5}));
                     }},
                    {"boxes must be f32 [N,G,5]",
                     [=] {
                       match_boxes(zeros({3, 4}), zeros({1, 2, 4}));
                     }},
                    {"(0,1], is 0",
                     [=] {
                       match_boxes(zeros({3, 4}), zeros({1, 2, 5}), {.threshold = 0.0f});
                     }},
                    {"variances must be above 0", [=] {
                       match_boxes(zeros({3, 4}), zeros({1, 2, 5}), {.variances = {0.1f, 0.0f}});
                     }}};
  Row mined = mine_row({}, "three to one", false);
  mined.refusals = {
      {"losses must be f32 [N,A]", [=] { mine_negatives(zeros({3}), zeros({3})); }},
      {"labels must be i32",
       [=] {
         mine_negatives(zeros({3, 2}), zeros({3, 2}));
       }},
      {"-1 for each positive", [=] {
         mine_negatives(zeros({3, 2}), zeros({3, 2}, DType::i32), {.negatives_per_positive = -1.0});
       }}};
  return {std::move(first),
          match_row(BoxMatching::argmax, true),
          match_row(BoxMatching::greedy, false),
          match_row(BoxMatching::greedy, true),
          std::move(mined),
          mine_row({}, "boxes", true),
          mine_row({.negatives_per_positive = 0.5, .min_negatives = 3, .share = LossShare::image}, "by image",
                   false),
          mine_row({.negatives_per_positive = 100.0}, "all", false)};
}

// On a GPU only a kernel could see them.
TEST_CASE("an object without an area has no code", "[ops][boxes]") {
  const Tensor anchors = Tensor::from(std::vector<float>{.5f, .5f, .2f, .2f}, {1, 4});
  const auto match = [&](std::array<float, 4> box, float label) {
    return match_boxes(anchors, Tensor::from(std::vector<float>{.1f, .1f, .4f, .4f, 1.f, box[0], box[1],
                                                                box[2], box[3], label},
                                             {2, 1, 5}));
  };
  CHECK_FAILS(InternalError, match({.6f, .3f, .2f, .7f}, 2.f),
              "object 0 of image 1 is [0.6, 0.3, 0.2, 0.7], which has no area");
  CHECK_FAILS(InternalError, match({.2f, .7f, .6f, .3f}, 2.f), "no area");
  CHECK_FAILS(InternalError, match({.2f, .3f, .2f, .7f}, 2.f), "no area");
  CHECK_FAILS(InternalError, match({.2f, .3f, .6f, .3f}, 2.f), "no area");
  CHECK_FAILS(InternalError, match({.2f, .3f, std::numeric_limits<float>::quiet_NaN(), .7f}, 2.f), "no area");
  // What is no object may be anything.
  CHECK_NOTHROW(match({0, 0, 0, 0}, 0.f));
  CHECK_NOTHROW(match({.6f, .3f, .2f, .7f}, -1.f));
  CHECK_NOTHROW(match({.2f, .3f, .6f, .7f}, 2.f));
}

TEST_CASE("losses that are no number are mined first", "[ops][boxes]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor loss = floats({1, nan, 2, 3, -1, 2}, {1, 6});
  const Tensor label = Tensor::from(std::vector<std::int32_t>{0, 0, 0, 0, 4, 0}, {1, 6}, test_device());
  CHECK(mine_negatives(loss, label).class_weight.to_vector<float>() == std::vector<float>{0, 1, 1, 1, 1, 0});
  CHECK(mine_negatives(loss, label).box_weight.to_vector<float>() == std::vector<float>{0, 0, 0, 0, 1, 0});
}

}  // namespace tandem::test
