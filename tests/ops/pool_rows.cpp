// Rows of autograd/ops/pool.h.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/apply.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/pool_ops.h"
#include "autograd/ops/reduce.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Shape pooled_shape(const Shape& x, const Pool2dOptions& o) {
  const auto extent = [&](int axis) {
    const auto a = static_cast<std::size_t>(axis);
    return (x[1 + axis] + 2 * o.padding[a] - o.kernel[a]) / o.stride[a] + 1;
  };
  return {x[0], extent(0), extent(1), x[3]};
}

// The real elements of the window of output index i, with their position in the window.
template <class Visit>
void for_window(const Shape& x, const Indices& i, const Pool2dOptions& o, Visit&& visit) {
  for (Index k = 0; k < o.kernel[0]; ++k) {
    for (Index l = 0; l < o.kernel[1]; ++l) {
      const Index h = i[1] * o.stride[0] - o.padding[0] + k, w = i[2] * o.stride[1] - o.padding[1] + l;
      if (h >= 0 && h < x[1] && w >= 0 && w < x[2]) visit(Indices{i[0], h, w, i[3]}, k * o.kernel[1] + l);
    }
  }
}

Array max_pooled(const Array& x, const Pool2dOptions& o) {
  Array y(pooled_shape(x.shape, o), -1e300);
  for_each_index(y.shape, [&](const Indices& i) {
    for_window(x.shape, i, o, [&](const Indices& j, Index) { y.at(i) = std::max(y.at(i), x.at(j)); });
  });
  return y;
}

// The divisor of a padded window counts what hangs over the image, but not over the padding.
Array avg_pooled(const Array& x, const Pool2dOptions& o) {
  Array y(pooled_shape(x.shape, o));
  for_each_index(y.shape, [&](const Indices& i) {
    double count = 0.0;
    for_window(x.shape, i, o, [&](const Indices& j, Index) {
      y.at(i) += x.at(j);
      count += 1.0;
    });
    if (o.count_include_pad) {
      const auto extent = [&](int axis) {
        const auto a = static_cast<std::size_t>(axis);
        const Index first = i[a + 1] * o.stride[a] - o.padding[a];
        return std::min(first + o.kernel[a], x.shape[1 + axis] + o.padding[a]) - first;
      };
      count = static_cast<double>(extent(0) * extent(1));
    }
    y.at(i) /= count;
  });
  return y;
}

Array adaptive_pooled(const Array& x, Index height, Index width) {
  Array y({x.shape[0], height, width, x.shape[3]});
  for_each_index(y.shape, [&](const Indices& i) {
    const auto range = [&](Index at, Index to, Index from) {
      return std::pair{at * from / to, ((at + 1) * from + to - 1) / to};
    };
    const auto [top, bottom] = range(i[1], height, x.shape[1]);
    const auto [left, right] = range(i[2], width, x.shape[2]);
    for (Index h = top; h < bottom; ++h) {
      for (Index w = left; w < right; ++w) y.at(i) += x(i[0], h, w, i[3]);
    }
    y.at(i) /= static_cast<double>((bottom - top) * (right - left));
  });
  return y;
}

struct Way {
  const char* name;
  Pool2dOptions options;
  std::vector<Shapes> cases;
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"2x2", {}, {{{1, 4, 5, 2}}, {{2, 2, 2, 1}}, {{0, 4, 4, 2}}, {{2, 4, 4, 0}}, {{3, 14, 15, 33}}}},
      {"3x3 strided, padded",
       {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
       {{{1, 5, 4, 2}}, {{1, 1, 1, 1}}, {{2, 15, 14, 48}}}},
      {"3x3 overlapping", {.kernel = {3, 3}, .stride = {1, 1}}, {{{1, 5, 4, 2}}, {{2, 9, 8, 17}}}},
      {"uneven", {.kernel = {3, 2}, .stride = {1, 3}, .padding = {1, 0}}, {{{1, 4, 6, 2}}, {{2, 7, 11, 5}}}},
      {"gaps", {.kernel = {1, 2}, .stride = {2, 3}}, {{{1, 5, 6, 2}}}},
      {"not counting the padding",
       {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .count_include_pad = false},
       {{{1, 5, 4, 2}}}},
  };
  return all;
}

Rows window_rows() {
  Rows rows;
  for (const Way& way : ways()) {
    const Pool2dOptions o = way.options;
    const Shape image = way.cases[0][0], pooled = pooled_shape(image, o);
    const std::array<Index, 2> extent{image[1], image[2]};
    rows.push_back({.op = "max_pool2d",
                    .variant = way.name,
                    .run = [o](const TensorList& x) { return max_pool2d(x[0], o); },
                    .oracle = [o](const Arrays& x) { return max_pooled(x[0], o); },
                    .cases = way.cases});
    rows.push_back({.op = "avg_pool2d",
                    .variant = way.name,
                    .run = [o](const TensorList& x) { return avg_pool2d(x[0], o); },
                    .oracle = [o](const Arrays& x) { return avg_pooled(x[0], o); },
                    .cases = way.cases});
    rows.push_back({.op = "avg_pool2d_gradient",
                    .variant = way.name,
                    .run =
                        [=](const TensorList& x) {
                          return apply(ops::AvgPool2dGradient{o, extent}, {x[0]}).dx;
                        },
                    .oracle =
                        [=](const Arrays& dy) {
                          return adjoint([&](const Array& x) { return avg_pooled(x, o); }, image, dy[0]);
                        },
                    .cases = {{pooled}}});
    if (o.padding != std::array<Index, 2>{0, 0}) continue;  // any position is a real element
    const Draw where{.low = 0,
                     .high = static_cast<double>(o.kernel[0] * o.kernel[1] - 1),
                     .whole = true,
                     .dtype = DType::u8};
    // chosen(i, j): output element i stands for input element j.
    const auto for_chosen = [=](const Array& positions, auto&& chosen) {
      for_each_index(pooled, [&](const Indices& i) {
        for_window(image, i, o, [&](const Indices& j, Index position) {
          if (static_cast<Index>(positions.at(i)) == position) chosen(i, j);
        });
      });
    };
    rows.push_back({.op = "max_pool2d_gradient",
                    .variant = way.name,
                    .run =
                        [=](const TensorList& x) {
                          return apply(ops::MaxPool2dGradient{o, extent}, {x[0], x[1]}).dx;
                        },
                    .oracle =
                        [=](const Arrays& x) {
                          Array dx(image);
                          for_chosen(x[1],
                                     [&](const Indices& i, const Indices& j) { dx.at(j) += x[0].at(i); });
                          return dx;
                        },
                    .cases = {{pooled, pooled}},
                    .draws = {{}, where}});
    rows.push_back({.op = "max_pool2d_select",
                    .variant = way.name,
                    .run =
                        [=](const TensorList& x) {
                          return apply(ops::MaxPool2dSelect{o, extent}, {x[0], x[1]}).y;
                        },
                    .oracle =
                        [=](const Arrays& x) {
                          Array y(pooled);
                          for_chosen(x[1], [&](const Indices& i, const Indices& j) { y.at(i) = x[0].at(j); });
                          return y;
                        },
                    .cases = {{image, pooled}},
                    .draws = {{}, where}});
  }
  return rows;
}

Rows adaptive_rows() {
  Rows rows;
  struct Size {
    const char* name;
    Index height, width;
  };
  for (const Size& size : {Size{"2x3", 2, 3}, Size{"1x1", 1, 1}, Size{"larger", 5, 7}}) {
    const Index h = size.height, w = size.width;
    const Shape image{2, 4, 5, 2};
    rows.push_back({.op = "adaptive_avg_pool2d",
                    .variant = size.name,
                    .run = [=](const TensorList& x) { return adaptive_avg_pool2d(x[0], h, w); },
                    .oracle = [=](const Arrays& x) { return adaptive_pooled(x[0], h, w); },
                    .cases = {{{2, 4, 5, 2}}, {{1, 4, 3, 2}}, {{0, 4, 5, 2}}, {{2, 11, 13, 19}}}});
    rows.push_back({.op = "adaptive_avg_pool2d_gradient",
                    .variant = size.name,
                    .run =
                        [=](const TensorList& x) {
                          return apply(ops::AdaptiveAvgPool2dGradient{{h, w}, {4, 5}}, {x[0]}).dx;
                        },
                    .oracle =
                        [=](const Arrays& dy) {
                          return adjoint([&](const Array& x) { return adaptive_pooled(x, h, w); },
                                         image.with(0, 1).with(3, 1), dy[0]);
                        },
                    .cases = {{{1, h, w, 1}}}});
  }
  const auto global = [](const Array& x) {
    Array y = adaptive_pooled(x, 1, 1);
    y.shape = {x.shape[0], x.shape[3]};
    return y;
  };
  rows.push_back({.op = "global_avg_pool2d",
                  .run = RUN(global_avg_pool2d(x[0])),
                  .oracle = [=](const Arrays& x) { return global(x[0]); },
                  .cases = {{{2, 3, 4, 2}}, {{1, 1, 1, 1}}, {{0, 3, 4, 2}}, {{3, 7, 7, 130}}}});
  rows.push_back({.op = "global_avg_pool2d_gradient",
                  .run = RUN(apply(ops::GlobalAvgPool2dGradient{{3, 4}}, {x[0]}).dx),
                  .oracle =
                      [=](const Arrays& dy) {
                        return adjoint(global, {2, 3, 4, 3}, dy[0]);
                      },
                  .cases = {{{2, 3}}}});
  return rows;
}

void add_refusals(Rows& rows) {
  const auto refuse = [&](const char* op, std::vector<Refusal> refusals) {
    for (Row& row : rows) {
      if (row.op == std::string(op) && row.refusals.empty()) {
        row.refusals = std::move(refusals);
        return;
      }
    }
  };
  const auto window_refusals = [](const std::string& op,
                                  Tensor (*pool)(const Tensor&, const Pool2dOptions&)) {
    return std::vector<Refusal>{
        {"[" + op + "] x must be [N,H,W,C], got f32[3,3]",
         [=] {
           pool(zeros({3, 3}), {});
         }},
        {"must be floating, got i64[1,3,3,1]",
         [=] {
           pool(Tensor::zeros({1, 3, 3, 1}, {.dtype = DType::i64, .device = test_device()}), {});
         }},
        {"[" + op + "] kernel must be at least 1, got [0,2]",
         [=] {
           pool(zeros({1, 3, 3, 1}), {.kernel = {0, 2}});
         }},
        {"[" + op + "] stride must be at least 1, got [2,0]",
         [=] {
           pool(zeros({1, 3, 3, 1}), {.stride = {2, 0}});
         }},
        {"padding must lie between 0 and half the kernel",
         [=] {
           pool(zeros({1, 3, 3, 1}), {.padding = {2, 0}});
         }},
        {"[" + op + "] kernel 5 is larger than height 3 with padding 0", [=] {
           pool(zeros({1, 3, 9, 1}), {.kernel = {5, 5}});
         }}};
  };
  refuse("max_pool2d", window_refusals("max_pool2d", max_pool2d));
  refuse("avg_pool2d", window_refusals("avg_pool2d", avg_pool2d));
  refuse("adaptive_avg_pool2d", {{"[adaptive_avg_pool2d] output extents must be at least 1, got [0,1]",
                                  CALL(adaptive_avg_pool2d(zeros({1, 3, 3, 1}), 0, 1))},
                                 {"an empty image [1,0,3,1] cannot be averaged",
                                  CALL(adaptive_avg_pool2d(zeros({1, 0, 3, 1}), 1, 1))}});
  refuse("global_avg_pool2d", {{"[global_avg_pool2d] an empty image [1,0,3,1] cannot be averaged",
                                CALL(global_avg_pool2d(zeros({1, 0, 3, 1})))}});
}

}  // namespace

Rows tandem::test::pool_rows() {
  Rows rows = window_rows();
  for (Row& row : adaptive_rows()) rows.push_back(std::move(row));
  add_refusals(rows);
  return rows;
}

TEST_CASE("max pooling: the first of equals has the gradient, NaN counts as largest", "[ops][pool]") {
  const Tensor x = leaf(floats({1, 1, 1, 1}, {1, 2, 2, 1}));
  backward(sum(max_pool2d(x, {})));
  CHECK(gradient_of(x).to_vector<double>() == std::vector<double>{1, 0, 0, 0});
  CHECK(std::isnan(max_pool2d(floats({1, 9, std::nanf(""), 2}, {1, 2, 2, 1}), {}).item()));
  // All-negative images are not beaten by padding.
  CHECK(max_pool2d(floats({-5}, {1, 1, 1, 1}), {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}})
            .item() == -5.0);
}

TEST_CASE("max pooling with windows of more than 256 positions", "[ops][pool]") {
  const Tensor x = leaf(random_tensor({1, 20, 19, 3}, DType::f32, 4));
  const Pool2dOptions o{.kernel = {20, 19}, .stride = {1, 1}};
  backward(sum(max_pool2d(x, o)));
  CHECK(sum(gradient_of(x)).item() == 3.0);
  CHECK(max_pool2d(x, o).to_vector<double>() == max(x, {1, 2}).to_vector<double>());
  // The last of so many positions has the maximum, and the gradient.
  for (const Index extent : {255, 256, 257, 258}) {
    std::vector<float> rising(static_cast<std::size_t>(extent));
    for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<float>(i);
    const Tensor line = leaf(Tensor::from(rising, {1, 1, extent, 1}));
    backward(sum(max_pool2d(line, {.kernel = {1, extent}, .stride = {1, 1}})));
    CHECK(gradient_of(line).to_vector<float>().back() == 1.0f);
    CHECK(sum(gradient_of(line)).item() == 1.0);
  }
}
