// Ops that move elements: values, views, gradients of first and second order, gradients that meet in one
// buffer, and errors.
#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/grad_check.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor count_up(const Shape& shape, DType type = DType::f32) {
  std::vector<double> values;
  for (Index i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(i));
  return tensor_of(values, shape, type);
}

using Values = std::vector<double>;
Values values_of(const Tensor& x) { return x.to_vector<double>(); }

Tensor index_of(const Values& values, const Shape& shape) { return tensor_of(values, shape, DType::i64); }

}  // namespace

TEST_CASE("shape ops move elements to where NumPy does", "[moving]") {
  const Tensor x = count_up({2, 3});
  CHECK(values_of(transpose(x, 0, 1)) == Values{0, 3, 1, 4, 2, 5});
  CHECK(values_of(permute(count_up({2, 2, 2}), {2, 0, 1})) == Values{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(values_of(concat({x, x}, 1)) == Values{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(values_of(concat({x, count_up({1, 3})}, 0)) == Values{0, 1, 2, 3, 4, 5, 0, 1, 2});
  CHECK(values_of(stack({x, x}, 2)) == Values{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  CHECK(stack({x, x}, -1).shape() == Shape{2, 3, 2});
  CHECK(values_of(split(x, {1, 2}, 1)[1]) == Values{1, 2, 4, 5});
  CHECK(values_of(unbind(x)[1]) == Values{3, 4, 5});
  CHECK(values_of(slice(x, 1, 0, 3, 2)) == Values{0, 2, 3, 5});
  CHECK(values_of(slice(x, 1, -2, -1)) == Values{1, 4});
  CHECK(values_of(pad(count_up({1, 2}), {1, 0}, {0, 2}, 9)) == Values{9, 9, 9, 9, 0, 1, 9, 9});
  CHECK(values_of(broadcast_to(count_up({3, 1}), {2, 3, 2})) == Values{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
  CHECK(values_of(flip(x, {0, -1})) == Values{5, 4, 3, 2, 1, 0});
  CHECK(values_of(resize2d(count_up({1, 1, 2, 1}), 2, 4, {ResizeMode::nearest})) ==
        Values{0, 0, 1, 1, 0, 0, 1, 1});
  CHECK(values_of(resize2d(count_up({1, 1, 2, 1}), 1, 3, {ResizeMode::bilinear, true})) == Values{0, 0.5, 1});
  CHECK(reshape(x, {-1}).shape() == Shape{6});
  CHECK(flatten(count_up({2, 3, 4})).shape() == Shape{2, 12});
  CHECK(flatten(count_up({2, 3, 4}), 0).shape() == Shape{24});
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    CHECK(values_of(transpose(tensor_of({1, 0, 0, 1, 1, 0}, {3, 2}, dtype), 0, 1)) ==
          Values{1, 0, 1, 0, 1, 0});
  }
  CHECK(concat({x, count_up({1, 3}, DType::f64)}, 0).dtype() == DType::f64);
  CHECK(stack({tensor_of({1}, {1}, DType::f16), tensor_of({1}, {1}, DType::bf16)}, 0).dtype() == DType::f32);
}

TEST_CASE("reshapes and ranges of the outermost axis share the storage, the rest copies", "[moving]") {
  const Tensor x = count_up({4, 3});
  CHECK(reshape(x, {2, 6}).shares_storage(x));
  CHECK(slice(x, 0, 1, 3).shares_storage(x));
  CHECK(split(x, {1, 3}, 0)[1].shares_storage(x));
  CHECK(unbind(x)[2].shares_storage(x));
  CHECK(slice(count_up({1, 4, 3}), 1, 1, 2).offset() == 3 * sizeof(float));
  CHECK(permute(count_up({2, 1, 3}), {1, 0, 2}).shape() == Shape{1, 2, 3});
  CHECK_FALSE(slice(x, 0, 0, 4, 2).shares_storage(x));
  CHECK_FALSE(slice(x, 1, 0, 2).shares_storage(x));
  CHECK_FALSE(transpose(x, 0, 1).shares_storage(x));
}

TEST_CASE("index ops take and place elements", "[moving]") {
  const Tensor x = count_up({3, 2});
  CHECK(values_of(gather(x, index_of({1, 0, 1}, {3, 1}), 1)) == Values{1, 2, 5});
  CHECK(values_of(scatter_add(x, index_of({0, 0}, {2, 1}), count_up({2, 1}), 0)) == Values{1, 1, 2, 3, 4, 5});
  CHECK(values_of(index_select(x, index_of({2, 0, 2}, {3}), 0)) == Values{4, 5, 0, 1, 4, 5});
  const Tensor rows = embedding(x, index_of({2, 0, 1, 1}, {2, 2}));
  CHECK(rows.shape() == Shape{2, 2, 2});
  CHECK(values_of(rows) == Values{4, 5, 0, 1, 2, 3, 2, 3});
  CHECK(values_of(one_hot(index_of({1, 0}, {2}), 3, DType::u8)) == Values{0, 1, 0, 1, 0, 0});
  const auto top = topk(tensor_of({3, 1, 3, 2}, {4}, DType::f16), 3);
  CHECK(values_of(top.values) == Values{3, 3, 2});
  CHECK(values_of(top.indices) == Values{0, 2, 3});
  CHECK(top.values.dtype() == DType::f16);
  CHECK(values_of(sort(tensor_of({3, 1, 3, 2}, {4}, DType::i32), 0).indices) == Values{1, 3, 0, 2});
}

TEST_CASE("moving ops and softmax have first and second derivatives", "[moving]") {
  const Tensor x = random_tensor({2, 3, 4}, DType::f64, 1), y = random_tensor({2, 1, 4}, DType::f64, 2);
  const Tensor image = random_tensor({2, 3, 4, 2}, DType::f64, 3),
               table = random_tensor({5, 3}, DType::f64, 4);
  const Tensor element = index_of({1, 0, 2, 2, 2, 0, 1, 1}, {2, 1, 4}), slices = index_of({1, 1, 0, 3}, {4});
  const auto check = [&](const char* name, const DifferentiableFunction& function, const TensorList& inputs) {
    INFO(name);
    // Squared, so that the second derivative is not 0 throughout.
    const auto squared = [&](const TensorList& in) { return square(function(in)); };
    const GradCheckReport first = grad_check(function, inputs), second = grad_grad_check(squared, inputs);
    INFO(to_string(first) << "; " << to_string(second));
    CHECK(first.passed);
    CHECK(second.passed);
  };
  check("reshape", [](const TensorList& in) { return reshape(in[0], {4, 6}); }, {x});
  check("permute", [](const TensorList& in) { return permute(in[0], {2, 0, 1}); }, {x});
  check("concat", [](const TensorList& in) { return concat({in[0], in[1], in[0]}, 1); }, {x, y});
  check("concat, outermost", [](const TensorList& in) { return concat({in[0], in[1]}, 0); }, {x, x});
  check("stack", [](const TensorList& in) { return stack({in[0], in[1]}, 1); }, {x, x});
  check("stack, outermost", [](const TensorList& in) { return stack({in[0], in[1]}, 0); }, {x, x});
  check("split", [](const TensorList& in) { return split(in[0], {1, 2, 1}, 2)[1]; }, {x});
  check("split, two pieces used",
        [](const TensorList& in) {
          const auto p = split(in[0], {1, 1}, 0);
          return p[0] * p[1];
        },
        {x});
  check("unbind", [](const TensorList& in) { return unbind(in[0])[1]; }, {x});
  check("slice", [](const TensorList& in) { return slice(in[0], 2, 1, 4, 2); }, {x});
  check("slice, outermost", [](const TensorList& in) { return slice(in[0], 0, 1, 2); }, {x});
  check("pad", [](const TensorList& in) { return pad(in[0], {1, 0, 2}, {0, 1, 1}, 0.5); }, {x});
  check("broadcast_to", [](const TensorList& in) { return broadcast_to(in[0], {3, 2, 5, 4}); }, {y});
  check("flip", [](const TensorList& in) { return flip(in[0], {0, 2}); }, {x});
  check("resize nearest", [](const TensorList& in) { return resize2d(in[0], 5, 3, {ResizeMode::nearest}); },
        {image});
  check("resize bilinear", [](const TensorList& in) { return resize2d(in[0], 5, 7, {ResizeMode::bilinear}); },
        {image});
  check("resize aligned",
        [](const TensorList& in) {
          return resize2d(in[0], 2, 7, {ResizeMode::bilinear, true});
        },
        {image});
  check("gather", [&](const TensorList& in) { return gather(in[0], element, 1); }, {x});
  check("scatter_add", [&](const TensorList& in) { return scatter_add(in[0], element, in[1], 1); }, {x, y});
  check("index_select", [&](const TensorList& in) { return index_select(in[0], slices, 2); }, {x});
  check("embedding", [&](const TensorList& in) { return embedding(in[0], element); }, {table});
  check("topk", [](const TensorList& in) { return topk(in[0], 2, 1).values; }, {x});
  check("sort", [](const TensorList& in) { return sort(in[0], 2).values; }, {x});
  for (const int axis : {0, 1, 2}) {
    check("softmax", [&](const TensorList& in) { return softmax(in[0], axis); }, {x});
    check("log_softmax", [&](const TensorList& in) { return log_softmax(in[0], axis); }, {x});
  }
  // The padding row gets nothing, in the second derivative either; numerically it would.
  const Tensor padded = leaf(table);
  const Tensor taken = square(embedding(padded, index_of({1, 3, 1}, {3}), 1)),
               ones = Tensor::full(taken.shape(), 1.0, taken.options());
  const Tensor slope = gradients({&taken, 1}, {&ones, 1}, {&padded, 1}, {.create_graph = true})[0];
  CHECK(values_of(slice(slope, 0, 1, 2)) == Values(3, 0.0));
  const Tensor steepness = Tensor::full(slope.shape(), 1.0, slope.options());
  const Tensor second = gradients({&slope, 1}, {&steepness, 1}, {&padded, 1})[0];
  CHECK(values_of(slice(second, 0, 1, 2)) == Values(3, 0.0));
  CHECK(values_of(slice(second, 0, 3, 4)) == Values(3, 2.0));
}

TEST_CASE("gradients that meet in one buffer add up, whoever writes first", "[moving]") {
  // Every op below is offered the buffer the others wrote to, as the engine sees them in turn.
  const Tensor table = leaf(count_up({4, 3})), buffer = Tensor::full({4, 3}, 77.0);
  static_cast<Leaf&>(*table.edge().node).set_gradient_buffer(buffer);
  for (int run = 1; run <= 2; ++run) {  // the second run accumulates
    const Tensor total =
        sum(embedding(table, index_of({1, 1, 3}, {3}), 3)) + sum(slice(table, 1, 0, 1)) * 10.0 +
        sum(index_select(table, index_of({0, 0}, {2}), 0)) * 100.0 + sum(transpose(table, 0, 1)) * 1000.0 +
        sum(gather(table, index_of({2, 1, 0}, {1, 3}), 0)) * 10000.0 +
        sum(pad(table, {1, 0}, {0, 1})) * 100000.0 + sum(concat({table, table}, 1)) * 1e6 +
        sum(stack({table, table}, 1)) * 1e6 + sum(split(table, {1, 2}, 1)[1]) * 1e7 +
        sum(unbind(table)[2]) * 4e7 + sum(flip(table, {0})) * 1e5;
    backward(total);
    Values expected;
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 3; ++j) {
        const double value = (i == 1 ? 2 : 0) + (j == 0 ? 10 : 0) + (i == 0 ? 200 : 0) + 1000 +
                             (i == 2 - j ? 10000 : 0) + 200000 + 4e6 + (j > 0 ? 1e7 : 0) + (i == 2 ? 4e7 : 0);
        expected.push_back(value * run);
      }
    const Tensor gradient = gradient_of(table);
    CHECK(gradient.is_same(buffer));
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(values_of(gradient)[i] == Approx(expected[i]).epsilon(1e-6));
  }
}

TEST_CASE("moving ops say what does not fit", "[moving]") {
  const Tensor x = count_up({2, 3});
  CHECK_FAILS(UserError, reshape(x, {4, -1}),
              "[reshape] f32[2,3] with 6 elements has no extent for axis 1 beside 4");
  CHECK_FAILS(UserError, reshape(x, {-1, -1}), "only one extent may be -1");
  CHECK_FAILS(UserError, reshape(x, {5}), "[reshape]");
  CHECK_FAILS(UserError, permute(x, {0, 0}), "[permute] axis 0 is named twice");
  CHECK_FAILS(UserError, permute(x, {0}), "[permute]");
  CHECK_FAILS(UserError, transpose(x, 0, 2), "[transpose] axis 2 is out of range");
  CHECK_FAILS(UserError, concat({}, 0), "[concat] at least one tensor");
  CHECK_FAILS(UserError, concat({x, count_up({2, 4})}, 0), "tensor 0 is [2,3], tensor 1 is [2,4]");
  CHECK_FAILS(UserError, stack({x, count_up({3, 2})}, 0), "[stack] tensors must have one shape");
  CHECK_FAILS(UserError, split(x, {1, 1}, 1), "[split] pieces sum to 2, not to axis 1");
  CHECK_FAILS(UserError, slice(x, 1, 0, 4), "[slice] range 0 to 4 lies outside axis 1");
  CHECK_FAILS(UserError, slice(x, 1, 0, 2, 0), "[slice] step 0 is not positive");
  CHECK_FAILS(UserError, pad(x, {1}, {1}), "[pad]");
  CHECK_FAILS(UserError, pad(x, {-1, 0}, {0, 0}), "use slice to crop");
  CHECK_FAILS(UserError, broadcast_to(x, {2, 4}), "[broadcast_to]");
  CHECK_FAILS(UserError, broadcast_to(x, {1, 3}), "[broadcast_to] f32[2,3] does not broadcast to [1,3]");
  CHECK_FAILS(UserError, flip(x, {0, 0}), "[flip]");
  CHECK_FAILS(UserError, unbind(Tensor::scalar(1)), "[unbind]");
  CHECK_FAILS(UserError, resize2d(x, 1, 1, {ResizeMode::nearest}), "[resize2d] expects floating images");
  CHECK_FAILS(UserError, gather(x, count_up({2, 3}), 0), "[gather] the index must be i64 or i32");
  CHECK_FAILS(UserError, gather(x, index_of({0}, {1}), 0), "[gather] index");
  CHECK_FAILS(UserError, gather(x, index_of({0, 0, 0}, {3, 1}), 1), "is larger than f32[2,3] on axis 0");
  CHECK_FAILS(UserError, embedding(x, index_of({0, 2}, {2})),
              "[embedding] index 2 at position [1] lies outside [0,2)");
  CHECK_FAILS(UserError, embedding(x, index_of({0}, {1}), 2), "padding index 2 lies outside [0,2)");
  CHECK_FAILS(UserError, index_select(x, index_of({0}, {1, 1}), 0), "[index_select] the index must be [K]");
  CHECK_FAILS(UserError, one_hot(index_of({3}, {1}), 3), "[one_hot] index 3");
  CHECK_FAILS(UserError, topk(x, 4), "[topk] k = 4 lies outside [0,3]");
  CHECK_FAILS(UserError, softmax(index_of({1}, {1})), "[softmax] expects a floating tensor");
  CHECK_FAILS(UserError, softmax(x, 2), "[softmax] axis 2 is out of range");
}
