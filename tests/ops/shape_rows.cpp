// Rows of autograd/ops/shape.h.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape_ops.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

Row row_of(const char* op, std::string variant, Run run, Oracle oracle, std::vector<Shapes> cases) {
  return {.op = op,
          .variant = std::move(variant),
          .run = std::move(run),
          .oracle = std::move(oracle),
          .cases = std::move(cases),
          .integers = true};
}

// ---- reshape, permute

Rows reshape_rows() {
  const auto reshaped = [](const Shape& to) {
    return [to](const Arrays& x) { return Array(to, x[0].values); };
  };
  Rows rows = {
      row_of("reshape", "inferred", RUN(reshape(x[0], {4, -1})), reshaped({4, 6}), {{{2, 3, 4}}, {{24}}}),
      row_of("reshape", "to a scalar", RUN(reshape(x[0], std::vector<Index>{})), reshaped({}),
             {{{1, 1}}, {{1}}}),
      row_of("reshape", "empty", RUN(reshape(concat({x[0], x[0]}, 0), {3, 2, 2})), reshaped({3, 2, 2}),
             {{{3, 2}}}),
      row_of("reshape", "flatten", RUN(flatten(x[0])), reshaped({2, 12}), {{{2, 3, 4}}, {{2, 3, 2, 2}}}),
  };
  rows[2].oracle = [](const Arrays& x) {
    std::vector<double> twice = x[0].values;
    twice.insert(twice.end(), x[0].values.begin(), x[0].values.end());
    return Array({3, 2, 2}, twice);
  };
  rows[2].variant = "after concat";
  rows[0].refusals = {
      {"[reshape] only one extent may be -1, axes 0 and 1 both are", CALL(reshape(zeros({6}), {-1, -1}))},
      {"[reshape] extent -2 of axis 1 is negative", CALL(reshape(zeros({6}), {3, -2}))},
      {"[reshape] f32[6] with 6 elements has no extent for axis 1 beside 4",
       CALL(reshape(zeros({6}), {4, -1}))},
      {"[reshape] f32[6] has 6 elements, [4] has 4", CALL(reshape(zeros({6}), {4}))},
      {"[reshape] f32[0] with 0 elements", CALL(reshape(zeros({0}), {0, -1}))}};
  return rows;
}

Oracle permuted(std::vector<int> order) {
  return [order](const Arrays& x) {
    Indices extents;
    for (const int axis : order) extents.push_back(x[0].shape[axis]);
    return moved(x[0], Shape(std::span<const Index>(extents)), [&](const Indices& i) {
      Indices j;
      for (const int axis : order) j.push_back(i[at(axis)]);
      return j;
    });
  };
}

Rows permute_rows() {
  const std::vector<Shapes> three = {{{2, 3, 4}}, {{0, 2, 3}}, {{1, 5, 1}}, {{31, 17, 40}}, {{3, 1, 2}}};
  Rows rows;
  const std::vector<int> orders[] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const std::vector<int>& order : orders) {
    std::string name;
    for (const int axis : order) name += std::to_string(axis);
    rows.push_back(row_of(
        "permute", name, [order](const TensorList& x) { return permute(x[0], order); }, permuted(order),
        three));
  }
  rows.push_back(row_of("permute", "NHWC to NCHW", RUN(permute(x[0], {0, 3, 1, 2})), permuted({0, 3, 1, 2}),
                        {{{2, 3, 4, 5}}, {{4, 9, 11, 64}}}));
  rows.push_back(row_of("permute", "transpose", RUN(transpose(x[0], 0, -1)), permuted({2, 1, 0}), three));
  rows.push_back(row_of("permute", "matrix", RUN(transpose(x[0], 0, 1)), permuted({1, 0}),
                        {{{3, 5}}, {{1, 4}}, {{129, 257}}, {{64, 64}}}));
  rows[0].refusals = {
      {"[permute] 2 axes are ordered, f32[2,3,4] has 3", CALL(permute(zeros({2, 3, 4}), {0, 1}))},
      {"[permute] axis 1 is named twice", CALL(permute(zeros({2, 3}), {1, -1}))},
      {"[permute] axis 2 is out of range", CALL(permute(zeros({2, 3}), {0, 2}))}};
  return rows;
}

// ---- concat, stack, split, unbind

Array joined(const Arrays& x, int axis) {
  Index total = 0;
  for (const Array& piece : x) total += piece.shape[axis];
  Array y(x[0].shape.with(axis, total));
  Index first = 0;
  for (const Array& piece : x) {
    for_each_index(piece.shape, [&](const Indices& i) {
      Indices j = i;
      j[at(axis)] += first;
      y.at(j) = piece.at(i);
    });
    first += piece.shape[axis];
  }
  return y;
}

Array slice_of(const Array& x, int axis, Index first, Index count, Index step = 1) {
  return fetched(x, x.shape.with(axis, count), [&](const Indices& i) {
    Indices j = i;
    j[at(axis)] = first + i[at(axis)] * step;
    return j;
  });
}

Rows joining_rows() {
  const auto stacked = [](int axis) {
    return [axis](const Arrays& x) {
      Arrays pieces;
      for (const Array& piece : x) pieces.emplace_back(piece.shape.inserted(axis, 1), piece.values);
      return joined(pieces, axis);
    };
  };
  Rows rows = {
      row_of("concat", "axis 0", RUN(concat(x, 0)), [](const Arrays& x) { return joined(x, 0); },
             {{{2, 3}, {1, 3}, {4, 3}}, {{2}, {0}, {3}}, {{5}}, {{301, 7}, {300, 7}}}),
      row_of("concat", "axis -1", RUN(concat(x, -1)),
             [](const Arrays& x) { return joined(x, x[0].shape.rank() - 1); },
             {{{2, 3}, {2, 1}, {2, 4}}, {{2, 3, 2}, {2, 3, 5}}, {{0, 3}, {0, 1}}, {{301, 7}, {301, 5}}}),
      row_of("concat", "middle", RUN(concat(x, 1)), [](const Arrays& x) { return joined(x, 1); },
             {{{2, 3, 4}, {2, 1, 4}}, {{2, 0, 3}, {2, 2, 3}}}),
      row_of("stack", "axis 0", RUN(stack(x, 0)), stacked(0),
             {{{2, 3}, {2, 3}}, {{}, {}, {}}, {{0}, {0}}, {{5}}}),
      row_of("stack", "axis -1", RUN(stack(x, -1)),
             [stacked](const Arrays& x) { return stacked(x[0].shape.rank())(x); },
             {{{2, 3}, {2, 3}}, {{}, {}}, {{301, 7}, {301, 7}}}),
      row_of("stack", "middle", RUN(stack(x, 1)), stacked(1), {{{2, 3}, {2, 3}, {2, 3}}}),
  };
  rows[0].refusals = {
      {"[concat] at least one tensor is needed", CALL(concat({}, 0))},
      {"[concat] tensors must agree on every axis but 0: tensor 0 is [2,3], tensor 1 is [2,4]",
       CALL(concat({zeros({2, 3}), zeros({2, 4})}, 0))},
      {"[concat] axis 2 is out of range", CALL(concat({zeros({2, 3})}, 2))}};
  rows[3].refusals = {{"[stack] at least one tensor is needed", CALL(stack({}, 0))},
                      {"[stack] tensors must have one shape: tensor 0 is [2], tensor 1 is [3]",
                       CALL(stack({zeros({2}), zeros({3})}, 0))}};
  return rows;
}

Rows splitting_rows() {
  Rows rows = {
      row_of("split", "axis 0, one piece used", RUN(split(x[0], {2, 3}, 0)[1]),
             [](const Arrays& x) { return slice_of(x[0], 0, 2, 3); }, {{{5, 3}}, {{5}}, {{5, 0}}}),
      row_of("split", "axis -1, one piece used", RUN(split(x[0], {1, 0, 4}, -1)[2]),
             [](const Arrays& x) { return slice_of(x[0], x[0].shape.rank() - 1, 1, 4); },
             {{{3, 5}}, {{2, 3, 5}}, {{301, 5}}}),
      row_of("split", "joined again", RUN(concat(split(x[0], {2, 1, 2}, 1), 1)),
             [](const Arrays& x) { return x[0]; }, {{{3, 5}}, {{2, 5, 3}}}),
      row_of("unbind", "one used", RUN(unbind(x[0])[2]),
             [](const Arrays& x) {
               const Array row = slice_of(x[0], 0, 2, 1);
               return Array(x[0].shape.without(0), row.values);
             },
             {{{3, 4}}, {{4}}, {{3, 2, 2}}}),
      row_of("unbind", "stacked again", RUN(stack(unbind(x[0]), 0)), [](const Arrays& x) { return x[0]; },
             {{{3, 4}}, {{4}}}),
  };
  rows[0].refusals = {
      {"[split] pieces sum to 4, not to axis 0 of f32[5]", CALL(split(zeros({5}), {2, 2}, 0))},
      {"[split] extent -1 is negative", CALL(split(zeros({5}), {6, -1}, 0))}};
  rows[3].refusals = {{"[unbind] a scalar has no axis to unbind",
                       CALL(unbind(Tensor::scalar(1, {.device = test_device()})))}};
  return rows;
}

// ---- slice, pad, broadcast, flip

Rows window_rows() {
  const auto padded = [](std::vector<Index> before, std::vector<Index> after, double value) {
    return [=](const Arrays& x) {
      Indices extents;
      for (int axis = 0; axis < x[0].shape.rank(); ++axis)
        extents.push_back(before[at(axis)] + x[0].shape[axis] + after[at(axis)]);
      Array y(Shape(std::span<const Index>(extents)), value);
      for_each_index(x[0].shape, [&](const Indices& i) {
        Indices j = i;
        for (std::size_t axis = 0; axis < j.size(); ++axis) j[axis] += before[axis];
        y.at(j) = x[0].at(i);
      });
      return y;
    };
  };
  const auto flipped = [](std::vector<int> axes) {
    return [axes](const Arrays& x) {
      return moved(x[0], x[0].shape, [&](const Indices& i) {
        Indices j = i;
        for (const int axis : axes) j[at(axis)] = x[0].shape[axis] - 1 - j[at(axis)];
        return j;
      });
    };
  };
  const auto spread = [](const Shape& to) {
    return [to](const Arrays& x) {
      Array y(to);
      for_each_index(to, [&](const Indices& i) { y.at(i) = broadcast_at(x[0], i); });
      return y;
    };
  };
  Rows rows = {
      row_of("slice", "rows", RUN(slice(x[0], 0, 1, 4)),
             [](const Arrays& x) { return slice_of(x[0], 0, 1, 3); }, {{{5, 3}}, {{4}}, {{5, 0}}}),
      row_of("slice", "columns", RUN(slice(x[0], -1, 1, -1)),
             [](const Arrays& x) {
               return slice_of(x[0], x[0].shape.rank() - 1, 1, x[0].shape[x[0].shape.rank() - 1] - 2);
             },
             {{{3, 5}}, {{2, 3, 4}}, {{4}}, {{2}}, {{301, 67}}}),
      row_of("slice", "every second", RUN(slice(x[0], 1, 0, 5, 2)),
             [](const Arrays& x) { return slice_of(x[0], 1, 0, 3, 2); }, {{{3, 5}}, {{2, 6, 3}}, {{0, 5}}}),
      row_of("slice", "every third row", RUN(slice(x[0], 0, 1, 7, 3)),
             [](const Arrays& x) { return slice_of(x[0], 0, 1, 2, 3); }, {{{7, 3}}, {{8}}}),
      row_of("pad", "matrix", RUN(pad(x[0], {1, 0}, {0, 2}, -0.5)), padded({1, 0}, {0, 2}, -0.5),
             {{{3, 4}}, {{0, 2}}, {{67, 30}}}),
      row_of("pad", "image", RUN(pad(x[0], {0, 2, 1, 0}, {0, 1, 2, 0})),
             padded({0, 2, 1, 0}, {0, 1, 2, 0}, 0), {{{2, 3, 2, 2}}, {{2, 17, 19, 5}}}),
      row_of("broadcast_to", "matrix", RUN(broadcast_to(x[0], {3, 4})), spread({3, 4}),
             {{{4}}, {{3, 1}}, {{}}, {{1, 4}}}),
      row_of("broadcast_to", "deep", RUN(broadcast_to(x[0], {2, 3, 1, 5})), spread({2, 3, 1, 5}),
             {{{3, 1, 1}}, {{2, 1, 1, 5}}}),
      row_of("broadcast_to", "to nothing", RUN(broadcast_to(x[0], {0, 4})), spread({0, 4}),
             {{{4}}, {{1, 1}}}),
      row_of("flip", "rows", RUN(flip(x[0], {0})), flipped({0}), {{{3, 4}}, {{5}}, {{0, 2}}, {{67, 31}}}),
      row_of("flip", "both", RUN(flip(x[0], {0, -1})), flipped({0, 1}), {{{3, 4}}, {{67, 31}}}),
      row_of("flip", "width", RUN(flip(x[0], {2})), flipped({2}), {{{2, 2, 3, 2}}, {{2, 9, 11, 3}}}),
  };
  rows[4].integers = false;  // pads with a fraction
  rows[0].refusals = {
      {"[slice] step 0 is not positive; use flip to reverse", CALL(slice(zeros({5}), 0, 0, 5, 0))},
      {"[slice] range 2 to 6 lies outside axis 0 of f32[5]", CALL(slice(zeros({5}), 0, 2, 6))},
      {"[slice] range 3 to 2 lies outside axis 0 of f32[5]", CALL(slice(zeros({5}), 0, 3, 2))},
      {"[slice] axis 1 is out of range", CALL(slice(zeros({5}), 1, 0, 1))}};
  rows[4].refusals = {
      {"[pad] 2 axes need as many entries, before has 1, after 2", CALL(pad(zeros({2, 2}), {1}, {1, 1}))},
      {"[pad] axis 1 is padded by -1 and 0; use slice to crop", CALL(pad(zeros({2, 2}), {0, -1}, {0, 0}))}};
  rows[6].refusals = {
      {"[broadcast_to] f32[4,1] does not broadcast to [4]", CALL(broadcast_to(zeros({4, 1}), {4}))}};
  rows[9].refusals = {{"[flip] axis -2 is named twice", CALL(flip(zeros({2, 2}), {0, -2}))}};
  return rows;
}

// ---- resize: coordinates as torch.nn.functional.interpolate

Array resized(const Array& x, Index height, Index width, const ResizeOptions& options) {
  const auto ratio = [&](Index from, Index to, std::size_t axis) {
    const double scale = options.scale[axis];
    return scale > 0 && from != to ? 1 / scale : static_cast<double>(from) / static_cast<double>(to);
  };
  const auto source = [&](Index i, Index from, Index to, std::size_t axis) {
    if (options.align_corners)
      return to > 1 ? static_cast<double>(i) * static_cast<double>(from - 1) / static_cast<double>(to - 1)
                    : 0.0;
    return (static_cast<double>(i) + 0.5) * ratio(from, to, axis) - 0.5;
  };
  const auto nearest = [&](Index i, Index from, Index to, std::size_t axis) {
    if (options.scale[axis] == 0 || from == to) return i * from / to;
    return std::min(static_cast<Index>(static_cast<double>(i) / options.scale[axis]), from - 1);
  };
  Array y({x.shape[0], height, width, x.shape[3]});
  const Index h = x.shape[1], w = x.shape[2];
  for_each_index(y.shape, [&](const Indices& i) {
    if (options.mode == ResizeMode::nearest) {
      y.at(i) = x(i[0], nearest(i[1], h, height, 0), nearest(i[2], w, width, 1), i[3]);
      return;
    }
    const auto clamped = [](double at, Index extent) {
      return std::clamp(at, 0.0, static_cast<double>(extent - 1));
    };
    const double v = clamped(source(i[1], h, height, 0), h), u = clamped(source(i[2], w, width, 1), w);
    const auto top = static_cast<Index>(v), left = static_cast<Index>(u);
    const Index bottom = std::min(top + 1, h - 1), right = std::min(left + 1, w - 1);
    const double dv = v - static_cast<double>(top), du = u - static_cast<double>(left);
    y.at(i) = (1 - dv) * ((1 - du) * x(i[0], top, left, i[3]) + du * x(i[0], top, right, i[3])) +
              dv * ((1 - du) * x(i[0], bottom, left, i[3]) + du * x(i[0], bottom, right, i[3]));
  });
  return y;
}

Rows resize_rows() {
  struct Way {
    const char* name;
    Index height, width;
    ResizeOptions options;
  };
  using enum ResizeMode;
  const std::array scale{2.3, 0.7};  // whatever the sizes
  const Way ways[] = {{"nearest up", 7, 6, {nearest}},
                      {"nearest down", 2, 1, {nearest}},
                      {"bilinear up", 7, 6, {bilinear}},
                      {"bilinear down", 2, 2, {bilinear}},
                      {"bilinear aligned", 5, 7, {bilinear, true}},
                      {"bilinear to one", 1, 1, {bilinear, true}},
                      {"nearest by factors", 6, 2, {nearest, false, scale}},
                      {"bilinear by factors", 6, 2, {bilinear, false, scale}},
                      {"bilinear by a factor along one axis", 5, 3, {bilinear, false, {0.0, 1.2}}}};
  Rows rows;
  for (const Way& way : ways) {
    const auto oracle = [way](const Array& x) { return resized(x, way.height, way.width, way.options); };
    rows.push_back(
        {.op = "resize2d",
         .variant = way.name,
         .run = [way](const TensorList& x) { return resize2d(x[0], way.height, way.width, way.options); },
         .oracle = [oracle](const Arrays& x) { return oracle(x[0]); },
         .cases = {{{2, 3, 4, 2}}, {{1, 4, 3, 1}}, {{0, 3, 4, 2}}, {{2, 2, 2, 0}}, {{2, 13, 11, 19}}}});
    const Shape from{1, 3, 4, 1};
    rows.push_back({.op = "resize2d_adjoint",
                    .variant = way.name,
                    .run =
                        [way, from](const TensorList& x) {
                          const ops::Resize2d forward{from, Shape{1, way.height, way.width, 1}, way.options};
                          return apply(ops::Resize2dAdjoint{forward}, {x[0]}).dx;
                        },
                    .oracle = [oracle, from](const Arrays& dy) { return adjoint(oracle, from, dy[0]); },
                    .cases = {{{1, way.height, way.width, 1}}}});
  }
  rows[0].refusals = {{"[resize2d] expects floating images [N,H,W,C], got f32[2,3]",
                       CALL(resize2d(zeros({2, 3}), 1, 1, {ResizeMode::nearest}))},
                      {"[resize2d] size 0x1 is not positive",
                       CALL(resize2d(zeros({1, 2, 2, 1}), 0, 1, {ResizeMode::nearest}))},
                      {"[resize2d] f32[1,0,2,1] has no pixels",
                       CALL(resize2d(zeros({1, 0, 2, 1}), 1, 1, {ResizeMode::nearest}))},
                      {"[resize2d] align_corners applies to bilinear only",
                       CALL(resize2d(zeros({1, 2, 2, 1}), 1, 1, {ResizeMode::nearest, true}))},
                      {"[resize2d] a scale must be positive, or 0 for the ratio of the extents, got -1",
                       CALL(resize2d(zeros({1, 2, 2, 1}), 1, 1, {ResizeMode::nearest, false, {1.0, -1.0}}))}};
  return rows;
}

}  // namespace

Rows tandem::test::shape_rows() {
  Rows rows;
  for (Rows (*part)() :
       {reshape_rows, permute_rows, joining_rows, splitting_rows, window_rows, resize_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

TEST_CASE("concat and stack of several dtypes give the widest", "[ops][shape]") {
  const Tensor half = tensor_of({1, 2}, {2}, DType::f16), brain = tensor_of({3}, {1}, DType::bf16),
               full = floats({4}, {1});
  CHECK(concat({half, brain}, 0).dtype() == DType::f32);
  CHECK(concat({half, half}, 0).dtype() == DType::f16);
  CHECK(concat({half, full}, 0).to_vector<double>() == std::vector<double>{1, 2, 4});
  CHECK(stack({brain, full}, 0).dtype() == DType::f32);
}

TEST_CASE("views share the storage, copies do not", "[ops][shape]") {
  const Tensor x = random_tensor({4, 3});
  CHECK(reshape(x, {12}).shares_storage(x));
  CHECK(slice(x, 0, 1, 3).shares_storage(x));
  CHECK(split(x, {1, 3}, 0)[1].shares_storage(x));
  CHECK(unbind(x)[2].shares_storage(x));
  CHECK_FALSE(permute(x, {1, 0}).shares_storage(x));
  CHECK_FALSE(slice(x, 1, 1, 3).shares_storage(x));
  CHECK_FALSE(flip(x, {0}).shares_storage(x));
}
