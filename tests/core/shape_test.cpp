// Strided copies and resizing against plain loops over every element.
#include "core/kernels/shape.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "core/backend.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Backend& backend() { return backend_for(Device{}); }

// Calls visit(from, to) for every element of a copy.
template <class Visit>
void for_each_position(const StridedView& from, const StridedView& to, const Shape& extents, Visit&& visit) {
  for (Index linear = 0; linear < extents.numel(); ++linear) {
    Index rest = linear, a = from.offset, b = to.offset;
    for (int i = extents.rank() - 1; i >= 0; --i) {
      a += rest % extents[i] * from.strides[i];
      b += rest % extents[i] * to.strides[i];
      rest /= extents[i];
    }
    visit(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
  }
}

struct Copy {
  StridedView from, to;
  Shape extents;
  Index x_size, y_size;
};

void check_copy(const Copy& copy, DType x_type, DType y_type, bool accumulate) {
  CAPTURE(name_of(x_type), name_of(y_type), accumulate, to_string(copy.extents));
  const Tensor x = tensor_of(random_values(copy.x_size, 3, -9.0, 9.0), {copy.x_size}, x_type);
  const Tensor y = tensor_of(random_values(copy.y_size, 4, -9.0, 9.0), {copy.y_size}, y_type);
  const auto xs = x.to_vector<double>();
  auto expected = y.to_vector<double>();
  for_each_position(copy.from, copy.to, copy.extents, [&](std::size_t a, std::size_t b) {
    expected[b] = accumulate ? expected[b] + xs[a] : xs[a];
  });
  backend().shape().strided_copy(x, copy.from, y, copy.to, copy.extents, accumulate);
  // Rounding the expectation as the kernel does: f32 sums of two terms round once.
  const auto rounded = tensor_of(expected, {copy.y_size}, y_type).to_vector<double>();
  const auto actual = y.to_vector<double>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    wrong += !close(actual[i], rounded[i], accumulate ? tolerance_of(y_type) : Tolerance{0, 0});
  CHECK(wrong == 0);
}

// Writes every element of a dense result of shape `extents`, reading a dense tensor with its axes in another
// order.
Copy permutation(const Shape& x, const std::vector<int>& order) {
  Copy copy{{}, {}, {}, x.numel(), x.numel()};
  std::vector<Index> extents;
  for (std::size_t i = 0; i < order.size(); ++i) {
    copy.from.strides[i] = x.strides()[static_cast<std::size_t>(order[i])];
    extents.push_back(x[order[i]]);
  }
  copy.extents = Shape(std::span<const Index>(extents));
  copy.to.strides = copy.extents.strides();
  return copy;
}

// Axes in random order on both sides, some reversed, broadcast, stepped, and with room around them.
Copy random_copy(std::uint64_t seed) {
  RandomStream random({.seed = seed});
  const int rank = static_cast<int>(random.below(6));
  std::vector<Index> extents;
  for (int i = 0; i < rank; ++i)
    extents.push_back(static_cast<Index>(random.below(i == 0 ? 40 : 6)) + (random.below(10) > 0));
  Copy copy{{}, {}, Shape(std::span<const Index>(extents)), 1, 1};
  const auto lay_out = [&](StridedView& view, bool may_repeat) {
    std::vector<int> order(static_cast<std::size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
    Index size = 1;
    for (const int axis : order) {
      const Index step = random.below(4) == 0 ? 2 : 1,
                  extent = std::max<Index>(extents[static_cast<std::size_t>(axis)], 1);
      if (may_repeat && random.below(5) == 0) continue;  // stride 0
      view.strides[static_cast<std::size_t>(axis)] = size * step;
      size *= extent * step;
      if (random.below(4) == 0) {
        view.offset += (extent - 1) * view.strides[static_cast<std::size_t>(axis)];
        view.strides[static_cast<std::size_t>(axis)] *= -1;
      }
    }
    const Index margin = static_cast<Index>(random.below(3));
    view.offset += margin;
    return size + 2 * margin;
  };
  copy.x_size = lay_out(copy.from, true);
  copy.y_size = lay_out(copy.to, false);
  return copy;
}

}  // namespace

TEST_CASE("strided copies of any layout and dtype write exactly the elements they name", "[shape]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Copy copy = random_copy(seed);
    const DType type = static_cast<DType>(seed % kDTypeCount);
    check_copy(copy, type, type, false);
  }
}

TEST_CASE("accumulating copies add in f32 and may mix floating types", "[shape]") {
  for (std::uint64_t seed = 1; seed <= 96; ++seed) {
    CAPTURE(seed);
    check_copy(random_copy(seed), kFloatingTypes[seed % 4], kFloatingTypes[seed / 4 % 4], true);
  }
  check_copy(random_copy(7), DType::i64, DType::i64, true);
  check_copy(random_copy(8), DType::i32, DType::i32, true);
}

TEST_CASE("large permutations take the blocked and the parallel paths", "[shape]") {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::u8}) {
    check_copy(permutation({3, 300, 301}, {0, 2, 1}), type, type, false);  // transposition with ragged tiles
    check_copy(permutation({130, 65, 70}, {2, 0, 1}), type, type, false);
    check_copy(permutation({4, 33, 34, 3}, {0, 3, 1, 2}), type, type, false);  // channels last to first
    check_copy(permutation({4, 3, 70, 71}, {0, 2, 3, 1}), type, type, false);
    check_copy(permutation({50, 40, 8, 16}, {1, 0, 2, 3}), type, type, false);  // long inner runs
    check_copy(permutation({700, 800}, {0, 1}), type, type, false);             // one run
  }
  check_copy(permutation({130, 65, 70}, {2, 0, 1}), DType::bf16, DType::f32, true);
}

namespace {

// The source coordinate of output position i, and from it one output value, written directly after PyTorch's
// documentation of interpolate.
double coordinate(Index i, Index in, Index out, const ResizeOptions& options) {
  if (options.align_corners)
    return out > 1 ? static_cast<double>(i * (in - 1)) / static_cast<double>(out - 1) : 0.0;
  const double scale = options.scale[0];
  const double ratio = scale > 0.0 ? 1.0 / scale : static_cast<double>(in) / static_cast<double>(out);
  return std::clamp((static_cast<double>(i) + 0.5) * ratio - 0.5, 0.0, static_cast<double>(in - 1));
}

struct Resize {
  Index images, height, width, channels, to_height, to_width;
};

// Calls visit(x index, y index, weight) for every contribution.
template <class Visit>
void for_each_contribution(const Resize& r, const ResizeOptions& options, Visit&& visit) {
  const auto weights = [&](Index i, Index in, Index out) {
    std::vector<std::pair<Index, double>> result;
    const double scale = options.scale[0];
    if (options.mode == ResizeMode::nearest && scale > 0.0)
      return result = {{std::min(static_cast<Index>(static_cast<double>(i) / scale), in - 1), 1.0}}, result;
    if (options.mode == ResizeMode::nearest) return result = {{i * in / out, 1.0}}, result;
    const double at = coordinate(i, in, out, options);
    const Index near = std::min(static_cast<Index>(at), in - 1), far = std::min(near + 1, in - 1);
    return result = {{near, 1.0 - (at - static_cast<double>(near))}, {far, at - static_cast<double>(near)}},
           result;
  };
  for (Index n = 0; n < r.images; ++n)
    for (Index i = 0; i < r.to_height; ++i)
      for (Index j = 0; j < r.to_width; ++j)
        for (const auto& [row, v] : weights(i, r.height, r.to_height))
          for (const auto& [column, h] : weights(j, r.width, r.to_width))
            for (Index c = 0; c < r.channels; ++c) {
              visit(static_cast<std::size_t>(((n * r.height + row) * r.width + column) * r.channels + c),
                    static_cast<std::size_t>(((n * r.to_height + i) * r.to_width + j) * r.channels + c),
                    v * h);
            }
}

}  // namespace

TEST_CASE("resizing and its adjoint agree with the definition", "[shape]") {
  const Resize cases[] = {{2, 4, 4, 3, 8, 8}, {1, 7, 5, 2, 3, 4},      {2, 1, 1, 5, 4, 3}, {1, 9, 9, 1, 1, 1},
                          {0, 4, 4, 2, 8, 8}, {3, 16, 20, 17, 33, 41}, {1, 8, 6, 4, 8, 12}};
  using enum ResizeMode;
  const std::array scale{1.7, 1.7};
  for (const Resize& r : cases) {
    for (const ResizeOptions& v :
         {ResizeOptions{nearest}, ResizeOptions{bilinear}, ResizeOptions{bilinear, true},
          ResizeOptions{nearest, false, scale}, ResizeOptions{bilinear, false, scale}}) {
      for (const DType type : kFloatingTypes) {
        CAPTURE(r.height, r.width, r.to_height, r.to_width, static_cast<int>(v.mode), v.align_corners,
                v.scale[0], name_of(type));
        const Shape small{r.images, r.height, r.width, r.channels},
            large{r.images, r.to_height, r.to_width, r.channels};
        const Tensor x = random_tensor(small, type, 5), dy = random_tensor(large, type, 6);
        const Tensor y = Tensor::empty(large, {.dtype = type}), dx = Tensor::empty(small, {.dtype = type});
        backend().shape().resize2d(x, y, v);
        backend().shape().resize2d_backward(dy, dx, v);
        const auto xs = x.to_vector<double>(), gs = dy.to_vector<double>();
        std::vector<double> expected_y(gs.size()), expected_dx(xs.size());
        for_each_contribution(r, v, [&](std::size_t from, std::size_t to, double weight) {
          expected_y[to] += weight * xs[from];
          expected_dx[from] += weight * gs[to];
        });
        CHECK(normalised_error(y.to_vector<double>(), expected_y) <= tolerance_of(type).relative);
        CHECK(normalised_error(dx.to_vector<double>(), expected_dx) <= tolerance_of(type).relative);
      }
    }
  }
}

TEST_CASE("16-bit images are resized as in f32, and rounded once", "[shape]") {
  Backend& cpu = backend_for({});
  const auto widened = [&](const Tensor& x) {
    const Tensor wide = Tensor::empty(x.shape());
    cpu.cast(x, wide);
    return wide;
  };
  const auto rounded = [&](const Tensor& x, DType dtype) {
    const Tensor narrow = Tensor::empty(x.shape(), {.dtype = dtype});
    cpu.cast(x, narrow);
    return narrow.to_vector<double>();
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const ResizeOptions& o :
         {ResizeOptions{ResizeMode::nearest}, {ResizeMode::bilinear}, {ResizeMode::bilinear, true}}) {
      for (const auto& [height, width] : {std::pair<Index, Index>{14, 18}, {4, 5}, {9, 7}}) {
        const Tensor x = random_tensor({3, 7, 9, 19}, dtype, 1),
                     dy = random_tensor({3, height, width, 19}, dtype, 2);
        const Tensor y = Tensor::empty(dy.shape(), {.dtype = dtype}),
                     dx = Tensor::empty(x.shape(), {.dtype = dtype});
        const Tensor wide_y = Tensor::empty(dy.shape()), wide_dx = Tensor::empty(x.shape());
        cpu.shape().resize2d(x, y, o);
        cpu.shape().resize2d(widened(x), wide_y, o);
        CHECK(y.to_vector<double>() == rounded(wide_y, dtype));
        cpu.shape().resize2d_backward(dy, dx, o);
        cpu.shape().resize2d_backward(widened(dy), wide_dx, o);
        CHECK(dx.to_vector<double>() == rounded(wide_dx, dtype));
      }
    }
  }
}
