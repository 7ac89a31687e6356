// Rows of autograd/ops/conv.h.
#include <catch2/catch.hpp>

#include "autograd/ops/conv_ops.h"
#include "autograd/ops/shape.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// The terms y(n,p,q,o) += x(n,h,w,c)·f(o,k,l,c') of a convolution, one at a time; what is done with them
// makes the convolution or one of its adjoints.
template <class Term>
void for_each_term(const Shape& x, const Shape& f, const Shape& y, const Conv2dOptions& o, Term&& term) {
  const Index per_group_out = f[0] / o.groups, per_group_in = f[3];
  for_each_index(y, [&](const Indices& i) {
    for (Index k = 0; k < f[1]; ++k) {
      const Index h = i[1] * o.stride[0] - o.padding[0] + k * o.dilation[0];
      if (h < 0 || h >= x[1]) continue;
      for (Index l = 0; l < f[2]; ++l) {
        const Index w = i[2] * o.stride[1] - o.padding[1] + l * o.dilation[1];
        if (w < 0 || w >= x[2]) continue;
        const Index first = i[3] / per_group_out * per_group_in;
        for (Index c = 0; c < per_group_in; ++c)
          term(Indices{i[0], h, w, first + c}, Indices{i[3], k, l, c}, i);
      }
    }
  });
}

Shape output_shape(const Shape& x, const Shape& f, const Conv2dOptions& o) {
  const auto extent = [&](int axis) {
    return (x[1 + axis] + 2 * o.padding[static_cast<std::size_t>(axis)] -
            o.dilation[static_cast<std::size_t>(axis)] * (f[1 + axis] - 1) - 1) /
               o.stride[static_cast<std::size_t>(axis)] +
           1;
  };
  return {x[0], extent(0), extent(1), f[0]};
}

void add_bias(Array& y, const Arrays& x) {
  if (x.size() > 2) for_each_index(y.shape, [&](const Indices& i) { y.at(i) += x[2](i[3]); });
}

Array convolved(const Arrays& x, const Conv2dOptions& o) {
  Array y(output_shape(x[0].shape, x[1].shape, o));
  for_each_term(
      x[0].shape, x[1].shape, y.shape, o,
      [&](const Indices& i, const Indices& f, const Indices& j) { y.at(j) += x[0].at(i) * x[1].at(f); });
  add_bias(y, x);
  return y;
}

// x[0] = dy, x[1] = filter.
Array input_gradient(const Arrays& x, const Shape& image, const Conv2dOptions& o) {
  Array dx(image);
  for_each_term(image, x[1].shape, x[0].shape, o, [&](const Indices& i, const Indices& f, const Indices& j) {
    dx.at(i) += x[0].at(j) * x[1].at(f);
  });
  return dx;
}

// x[0] = image, x[1] = dy.
Array filter_gradient(const Arrays& x, const Shape& filter, const Conv2dOptions& o) {
  Array df(filter);
  for_each_term(x[0].shape, filter, x[1].shape, o, [&](const Indices& i, const Indices& f, const Indices& j) {
    df.at(f) += x[0].at(i) * x[1].at(j);
  });
  return df;
}

struct Way {
  const char* name;
  Conv2dOptions options;
  std::vector<Shapes> cases;  // x, filter, bias
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"1x1",
       {},
       {{{1, 3, 4, 3}, {5, 1, 1, 3}, {5}},
        {{1, 1, 1, 1}, {1, 1, 1, 1}, {1}},
        {{0, 3, 3, 2}, {2, 1, 1, 2}, {2}},
        {{2, 14, 14, 64}, {32, 1, 1, 64}, {32}}}},
      {"1x1 strided",
       {.stride = {2, 2}},
       {{{1, 5, 4, 2}, {3, 1, 1, 2}, {3}}, {{2, 8, 8, 32}, {48, 1, 1, 32}, {48}}}},
      {"2x2", {}, {{{1, 4, 3, 2}, {2, 2, 2, 2}, {2}}, {{2, 2, 2, 3}, {4, 2, 2, 3}, {4}}}},
      {"3x3 padded",
       {.padding = {1, 1}},
       {{{1, 4, 3, 2}, {2, 3, 3, 2}, {2}},
        {{2, 9, 11, 32}, {48, 3, 3, 32}, {48}},
        {{3, 7, 6, 16}, {16, 3, 3, 16}, {16}},
        {{0, 4, 4, 2}, {2, 3, 3, 2}, {2}}}},
      {"3x3 strided",
       {.stride = {2, 2}, .padding = {1, 1}},
       {{{1, 5, 4, 2}, {2, 3, 3, 2}, {2}}, {{2, 15, 14, 16}, {24, 3, 3, 16}, {24}}}},
      {"uneven",
       {.stride = {2, 1}, .padding = {0, 2}, .dilation = {1, 2}},
       {{{1, 5, 4, 2}, {2, 2, 3, 2}, {2}}, {{2, 13, 9, 5}, {7, 2, 3, 5}, {7}}}},
      {"dilated",
       {.padding = {2, 2}, .dilation = {2, 2}},
       {{{1, 5, 5, 1}, {2, 3, 3, 1}, {2}}, {{1, 11, 10, 16}, {16, 3, 3, 16}, {16}}}},
      {"grouped", {.groups = 2}, {{{1, 4, 3, 4}, {4, 2, 2, 2}, {4}}, {{2, 8, 8, 32}, {32, 3, 3, 16}, {32}}}},
      {"depthwise",
       {.padding = {1, 1}, .groups = 3},
       {{{1, 4, 4, 3}, {3, 3, 3, 1}, {3}},
        {{2, 9, 8, 3}, {3, 3, 3, 1}, {3}},
        {{0, 4, 4, 3}, {3, 3, 3, 1}, {3}}}},
      {"depthwise 5x5",
       {.stride = {2, 2}, .padding = {2, 2}, .groups = 2},
       {{{1, 5, 6, 2}, {2, 5, 5, 1}, {2}}, {{3, 11, 8, 2}, {2, 5, 5, 1}, {2}}}},
      {"depthwise uneven",
       {.stride = {1, 3}, .padding = {0, 3}, .dilation = {2, 1}, .groups = 2},
       {{{1, 4, 5, 2}, {2, 2, 3, 1}, {2}}, {{2, 7, 13, 2}, {2, 2, 3, 1}, {2}}}},
      {"depthwise, two panels",
       {.groups = 17},
       {{{1, 1, 1, 17}, {17, 1, 1, 1}, {17}}, {{3, 14, 17, 17}, {17, 3, 3, 1}, {17}}}},
      {"depthwise doubled",
       {.stride = {2, 2}, .padding = {1, 1}, .groups = 2},
       {{{1, 4, 4, 2}, {4, 3, 3, 1}, {4}}}},
      {"7x7",
       {.stride = {2, 2}, .padding = {3, 3}},
       {{{1, 6, 7, 1}, {1, 7, 7, 1}, {1}}, {{2, 23, 22, 3}, {16, 7, 7, 3}, {16}}}},
  };
  return all;
}

// A GPU multiplies 16-bit images of fewer than 4 channels with zeros behind them.
constexpr Conv2dOptions kFewChannels{.stride = {2, 2}, .padding = {1, 1}};

Shapes without_bias(const Shapes& shapes) { return {shapes[0], shapes[1]}; }

Rows conv2d_rows() {
  Rows rows;
  for (const Way& way : ways()) {
    const Conv2dOptions o = way.options;
    std::vector<Shapes> bare;
    for (const Shapes& shapes : way.cases) bare.push_back(without_bias(shapes));
    rows.push_back({.op = "conv2d",
                    .variant = way.name,
                    .run = [o](const TensorList& x) { return conv2d(x[0], x[1], x[2], o); },
                    .oracle = [o](const Arrays& x) { return convolved(x, o); },
                    .cases = way.cases,
                    .normalised = true});
    rows.push_back({.op = "conv2d",
                    .variant = std::string(way.name) + ", no bias",
                    .run = [o](const TensorList& x) { return conv2d(x[0], x[1], {}, o); },
                    .oracle = [o](const Arrays& x) { return convolved(x, o); },
                    .cases = {bare.front()},
                    .normalised = true});
  }
  rows.push_back({.op = "conv2d",
                  .variant = "few channels",
                  .run = RUN(conv2d(x[0], x[1], x[2], kFewChannels)),
                  .oracle = [](const Arrays& x) { return convolved(x, kFewChannels); },
                  .cases = {{{2, 5, 4, 3}, {2, 3, 3, 3}, {2}},
                            {{1, 3, 3, 1}, {1, 1, 1, 1}, {1}},
                            {{2, 15, 14, 6}, {24, 3, 3, 6}, {24}},
                            {{0, 3, 3, 2}, {2, 2, 2, 2}, {2}}},
                  .normalised = true});
  rows[0].refusals = {
      {"[conv2d] filter [64,3,3,16] expects 16 input channels, input is [8,28,28,32]",
       CALL(conv2d(zeros({8, 28, 28, 32}), zeros({64, 3, 3, 16})))},
      {"must have 4 axes, got f32[3,3]", CALL(conv2d(zeros({3, 3}), zeros({1, 1, 1, 3})))},
      {"[conv2d] kernel 5 with dilation 1 is larger than height 3 with padding 0",
       CALL(conv2d(zeros({1, 3, 9, 2}), zeros({1, 5, 5, 2})))},
      {"[conv2d] stride must be at least 1, got [0,1]",
       CALL(conv2d(zeros({1, 3, 3, 2}), zeros({1, 1, 1, 2}), {}, {.stride = {0, 1}}))},
      {"[conv2d] padding must not be negative, got [0,-1]",
       CALL(conv2d(zeros({1, 3, 3, 2}), zeros({1, 1, 1, 2}), {}, {.padding = {0, -1}}))},
      {"[conv2d] dilation must be at least 1",
       CALL(conv2d(zeros({1, 3, 3, 2}), zeros({1, 1, 1, 2}), {}, {.dilation = {0, 1}}))},
      {"[conv2d] groups must be at least 1, got 0",
       CALL(conv2d(zeros({1, 3, 3, 2}), zeros({1, 1, 1, 2}), {}, {.groups = 0}))},
      {"which 2 groups do not divide",
       CALL(conv2d(zeros({1, 3, 3, 2}), zeros({3, 1, 1, 1}), {}, {.groups = 2}))},
      {"[conv2d] bias must be floating [4], got f32[3]",
       CALL(conv2d(zeros({1, 3, 3, 2}), zeros({4, 1, 1, 2}), zeros({3})))},
      {"must be floating, got i32",
       CALL(conv2d(Tensor::zeros({1, 3, 3, 2}, {.dtype = DType::i32, .device = test_device()}),
                   zeros({4, 1, 1, 2})))},
      {"has an empty kernel", CALL(conv2d(zeros({1, 3, 3, 2}), zeros({4, 0, 1, 2})))}};
  return rows;
}

Rows gradient_rows() {
  Rows rows;
  for (const Way& way : ways()) {
    const Conv2dOptions o = way.options;
    const Shape image = way.cases[0][0], filter = way.cases[0][1], y = output_shape(image, filter, o);
    rows.push_back({.op = "conv2d_input_gradient",
                    .variant = way.name,
                    .run =
                        [=](const TensorList& x) {
                          return conv2d_input_gradient(x[0], x[1], {image[1], image[2]}, o);
                        },
                    .oracle = [=](const Arrays& x) { return input_gradient(x, image, o); },
                    .cases = {{y, filter}},
                    .normalised = true});
    rows.push_back({.op = "conv2d_filter_gradient",
                    .variant = way.name,
                    .run =
                        [=](const TensorList& x) {
                          return conv2d_filter_gradient(x[0], x[1], {filter[1], filter[2]}, o);
                        },
                    .oracle = [=](const Arrays& x) { return filter_gradient(x, filter, o); },
                    .cases = {{image, y}},
                    .result = Result::wide,
                    .normalised = true});
  }
  rows.push_back({.op = "conv2d_filter_gradient",
                  .variant = "few channels",
                  .run = RUN(conv2d_filter_gradient(x[0], x[1], {2, 2}, kFewChannels)),
                  .oracle =
                      [](const Arrays& x) {
                        return filter_gradient(x, {2, 2, 2, 2}, kFewChannels);
                      },
                  .cases = {{{1, 3, 3, 2}, {1, 2, 2, 2}}},
                  .result = Result::wide,
                  .normalised = true});
  rows[0].refusals = {{"[conv2d_input_gradient] filter [2,1,1,3] has 2 output channels, dy is [1,2,2,5]",
                       CALL(conv2d_input_gradient(zeros({1, 2, 2, 5}), zeros({2, 1, 1, 3}), {2, 2}, {}))}};
  rows[1].refusals = {{"[conv2d_filter_gradient] x [1,2,2,3] and dy [2,2,2,5] differ in batch",
                       CALL(conv2d_filter_gradient(zeros({1, 2, 2, 3}), zeros({2, 2, 2, 5}), {1, 1}, {}))}};
  return rows;
}

Rows transposed_rows() {
  struct Transposed {
    const char* name;
    Conv2dOptions options;
    std::array<Index, 2> extra;
    std::vector<Shapes> cases;  // x [N,H,W,C], filter [C,KH,KW,O/groups], bias [O]
  };
  const Transposed all[] = {
      {"plain",
       {},
       {0, 0},
       {{{1, 3, 2, 2}, {2, 2, 3, 2}, {2}},
        {{2, 7, 6, 16}, {16, 3, 3, 8}, {8}},
        {{0, 3, 2, 2}, {2, 2, 2, 1}, {1}}}},
      {"strided",
       {.stride = {2, 2}, .padding = {1, 1}},
       {1, 0},
       {{{1, 3, 2, 2}, {2, 3, 3, 2}, {2}}, {{2, 5, 6, 8}, {8, 3, 3, 16}, {16}}}},
      {"dilated", {.padding = {1, 0}, .dilation = {2, 1}}, {0, 0}, {{{1, 3, 3, 1}, {1, 2, 2, 2}, {2}}}},
      // More output padding than a stride: the output's own convolution has more positions than x.
      {"padded by more than the stride",
       {.padding = {1, 0}, .dilation = {3, 2}},
       {2, 1},
       {{{1, 3, 3, 1}, {1, 2, 2, 2}, {2}}, {{2, 4, 3, 4}, {4, 2, 3, 4}, {4}}}},
      {"grouped", {.stride = {2, 1}, .groups = 2}, {0, 0}, {{{1, 2, 3, 4}, {4, 2, 2, 2}, {4}}}},
      // Rows and columns at the end that no input reaches by a whole stride.
      {"output padding of a stride",
       {.dilation = {2, 3}},
       {1, 1},
       {{{1, 3, 3, 2}, {2, 2, 2, 2}, {2}}, {{2, 5, 6, 16}, {16, 3, 3, 8}, {8}}}},
      {"output padding beyond a stride",
       {.stride = {2, 1}, .padding = {1, 1}, .dilation = {4, 3}, .groups = 2},
       {3, 2},
       {{{1, 3, 3, 4}, {4, 2, 2, 1}, {2}}}},
  };
  Rows rows;
  for (const Transposed& way : all) {
    const Conv2dOptions o = way.options;
    const std::array<Index, 2> extra = way.extra;
    const auto oracle = [o, extra](const Arrays& x) {
      const auto extent = [&](int axis) {
        const auto a = static_cast<std::size_t>(axis);
        return (x[0].shape[1 + axis] - 1) * o.stride[a] - 2 * o.padding[a] +
               o.dilation[a] * (x[1].shape[1 + axis] - 1) + extra[a] + 1;
      };
      Array y = input_gradient(x, {x[0].shape[0], extent(0), extent(1), x[1].shape[3] * o.groups}, o);
      add_bias(y, x);
      return y;
    };
    rows.push_back(
        {.op = "conv_transpose2d",
         .variant = way.name,
         .run = [o, extra](const TensorList& x) { return conv_transpose2d(x[0], x[1], x[2], o, extra); },
         .oracle = oracle,
         .cases = way.cases,
         .normalised = true});
  }
  rows.push_back({.op = "conv_transpose2d",
                  .variant = "no bias",
                  .run = RUN(conv_transpose2d(x[0], x[1])),
                  .oracle = rows[0].oracle,
                  .cases = {{{1, 3, 2, 2}, {2, 2, 3, 2}}},
                  .normalised = true});
  rows[0].refusals = {
      {"[conv_transpose2d] filter [3,2,2,4] expects 3 input channels, input is [1,2,2,5]",
       CALL(conv_transpose2d(zeros({1, 2, 2, 5}), zeros({3, 2, 2, 4})))},
      {"output padding must lie in [0, max(stride, dilation)) = [0, 1), got 1",
       CALL(conv_transpose2d(zeros({1, 2, 2, 3}), zeros({3, 2, 2, 4}), {}, {}, {0, 1}))},
      {"[conv_transpose2d] padding 2 leaves",
       CALL(conv_transpose2d(zeros({1, 2, 2, 3}), zeros({3, 2, 2, 4}), {}, {.padding = {2, 2}}))}};
  return rows;
}

Rows conv1d_rows() {
  const auto oracle = [](const Conv1dOptions& o) {
    return [o](const Arrays& x) {
      Arrays images = x;
      images[0].shape = {x[0].shape[0], 1, x[0].shape[1], x[0].shape[2]};
      images[1].shape = {x[1].shape[0], 1, x[1].shape[1], x[1].shape[2]};
      const Array y = convolved(images, {.stride = {1, o.stride},
                                         .padding = {0, o.padding},
                                         .dilation = {1, o.dilation},
                                         .groups = o.groups});
      return Array({y.shape[0], y.shape[2], y.shape[3]}, y.values);
    };
  };
  static constexpr Conv1dOptions kPadded{.stride = 2, .padding = 2, .dilation = 2, .groups = 2};
  return {
      {.op = "conv2d",
       .variant = "conv1d",
       .run = RUN(conv1d(x[0], x[1], x[2])),
       .oracle = oracle({}),
       .cases = {{{2, 5, 3}, {2, 3, 3}, {2}}, {{1, 1, 1}, {1, 1, 1}, {1}}, {{3, 40, 16}, {16, 5, 16}, {16}}},
       .normalised = true,
       .refusals = {{"[conv1d] x must be [N,L,C], got f32[5,3]",
                     CALL(conv1d(zeros({5, 3}), zeros({2, 3, 3})))},
                    {"[conv1d] filter must be [O,K,C/groups], got f32[2,3]",
                     CALL(conv1d(zeros({1, 5, 3}), zeros({2, 3})))},
                    {"[conv1d] filter [2,3,4] expects 4 input channels, input is [1,5,3]",
                     CALL(conv1d(zeros({1, 5, 3}), zeros({2, 3, 4})))},
                    {"[conv1d] kernel 7 with dilation 1 is larger than length 5 with padding 0",
                     CALL(conv1d(zeros({1, 5, 3}), zeros({2, 7, 3})))}}},
      {.op = "conv2d",
       .variant = "conv1d with options",
       .run = RUN(conv1d(x[0], x[1], {}, kPadded)),
       .oracle = oracle(kPadded),
       .cases = {{{2, 7, 4}, {2, 3, 2}}},
       .normalised = true}};
}

}  // namespace

Rows tandem::test::conv_rows() {
  Rows rows;
  for (Rows (*part)() : {conv2d_rows, gradient_rows, transposed_rows, conv1d_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

TEST_CASE("16-bit convolutions accumulate in f32", "[ops][conv]") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = Tensor::full({1, 3, 3, 512}, 1.0, {.dtype = dtype, .device = test_device()}),
                 f = Tensor::full({1, 3, 3, 512}, 1.0, {.dtype = dtype, .device = test_device()});
    CHECK(conv2d(x, f).item() == 4608.0);  // FP16 would stall at 2048, BF16 at 256
  }
}
