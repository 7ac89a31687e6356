// Pooling kernels of the CPU backend against plain loops in double precision.
#include "core/kernels/pool.h"

#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <limits>

#include "tests/core/kernel_testing.h"

using namespace tandem;

namespace {

struct Case {
  Index n, h, w, c;
  Pool2dOptions options;
};

const std::vector<Case> kCases = {
    {2, 8, 8, 16, {}},
    {2, 9, 7, 5, {}},
    {1, 14, 15, 64, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {2, 7, 7, 130, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}},
    {1, 10, 11, 3, {.kernel = {2, 5}, .stride = {3, 1}, .padding = {1, 2}}},
    {1, 5, 5, 1, {.kernel = {5, 5}, .stride = {5, 5}}},
    {1, 20, 21, 2, {.kernel = {20, 17}, .stride = {1, 1}}},
    {0, 8, 8, 4, {}},
    {2, 6, 6, 7, {.kernel = {2, 2}, .stride = {3, 3}}},
};

Index extent(Index in, const Pool2dOptions& o, int axis) {
  return (in + 2 * o.padding[axis] - o.kernel[axis]) / o.stride[axis] + 1;
}

// Calls f(n, oy, ox, iy, ix, position) for every element under every window.
template <class F>
void for_each_element(const Case& c, F&& f) {
  const auto& o = c.options;
  for (Index n = 0; n < c.n; ++n)
    for (Index oy = 0; oy < extent(c.h, o, 0); ++oy)
      for (Index ox = 0; ox < extent(c.w, o, 1); ++ox)
        for (Index ky = 0; ky < o.kernel[0]; ++ky)
          for (Index kx = 0; kx < o.kernel[1]; ++kx) {
            const Index iy = oy * o.stride[0] - o.padding[0] + ky, ix = ox * o.stride[1] - o.padding[1] + kx;
            if (iy >= 0 && iy < c.h && ix >= 0 && ix < c.w) f(n, oy, ox, iy, ix, ky * o.kernel[1] + kx);
          }
}

struct Expected {
  std::vector<double> y, selected, dx;
  std::vector<double> where;
};

void check_max(const Case& c, DType dtype) {
  const auto& o = c.options;
  const Shape pooled{c.n, extent(c.h, o, 0), extent(c.w, o, 1), c.c};
  const Tensor x = normal_tensor({c.n, c.h, c.w, c.c}, dtype, 1), dy = normal_tensor(pooled, dtype, 2);
  const Tensor v = normal_tensor(x.shape(), dtype, 3);
  const auto xs = x.to_vector<double>(), gs = dy.to_vector<double>(), vs = v.to_vector<double>();
  Expected e{std::vector<double>(gs.size(), -std::numeric_limits<double>::infinity()),
             std::vector<double>(gs.size()), std::vector<double>(xs.size()), std::vector<double>(gs.size())};
  std::vector<std::size_t> source(gs.size());
  for_each_element(c, [&](Index n, Index oy, Index ox, Index iy, Index ix, Index position) {
    for (Index k = 0; k < c.c; ++k) {
      const auto from = static_cast<std::size_t>(((n * c.h + iy) * c.w + ix) * c.c + k);
      const auto to = static_cast<std::size_t>(((n * pooled[1] + oy) * pooled[2] + ox) * c.c + k);
      if (xs[from] > e.y[to]) {
        e.y[to] = xs[from];
        e.where[to] = static_cast<double>(position);
        source[to] = from;
      }
    }
  });
  for (std::size_t i = 0; i < gs.size(); ++i) {
    e.dx[source[i]] += gs[i];
    e.selected[i] = vs[source[i]];
  }
  Backend& backend = cpu::backend();
  const Tensor y = Tensor::empty(pooled, {.dtype = dtype}), dx = Tensor::empty(x.shape(), {.dtype = dtype});
  const Tensor where =
      Tensor::empty(pooled, {.dtype = o.kernel[0] * o.kernel[1] <= 256 ? DType::u8 : DType::i32});
  backend.pool().max_pool2d(x, y, where, o);
  CHECK(y.to_vector<double>() == e.y);
  CHECK(where.to_vector<double>() == e.where);
  backend.pool().max_pool2d_backward(dy, where, dx, o);
  CHECK(normalised_error(dx.to_vector<double>(), e.dx) <= tolerance(dtype));
  const Tensor selected = Tensor::empty(pooled, {.dtype = dtype});
  backend.pool().max_pool2d_select(v, where, selected, o);
  CHECK(selected.to_vector<double>() == e.selected);
}

void check_average(const Case& c, DType dtype) {
  const auto& o = c.options;
  const Shape pooled{c.n, extent(c.h, o, 0), extent(c.w, o, 1), c.c};
  const Tensor x = normal_tensor({c.n, c.h, c.w, c.c}, dtype, 1), dy = normal_tensor(pooled, dtype, 2);
  const auto xs = x.to_vector<double>(), gs = dy.to_vector<double>();
  std::vector<double> y(gs.size()), dx(xs.size()), counts(gs.size());
  for_each_element(c, [&](Index n, Index oy, Index ox, Index, Index, Index) {
    for (Index k = 0; k < c.c; ++k)
      counts[static_cast<std::size_t>(((n * pooled[1] + oy) * pooled[2] + ox) * c.c + k)] += 1;
  });
  for_each_element(c, [&](Index n, Index oy, Index ox, Index iy, Index ix, Index) {
    for (Index k = 0; k < c.c; ++k) {
      const auto from = static_cast<std::size_t>(((n * c.h + iy) * c.w + ix) * c.c + k);
      const auto to = static_cast<std::size_t>(((n * pooled[1] + oy) * pooled[2] + ox) * c.c + k);
      const double count = o.count_include_pad ? static_cast<double>(o.kernel[0] * o.kernel[1]) : counts[to];
      y[to] += xs[from] / count;
      dx[from] += gs[to] / count;
    }
  });
  const Tensor got = Tensor::empty(pooled, {.dtype = dtype}),
               got_dx = Tensor::empty(x.shape(), {.dtype = dtype});
  cpu::backend().pool().avg_pool2d(x, got, o);
  CHECK(normalised_error(got.to_vector<double>(), y) <= tolerance(dtype));
  cpu::backend().pool().avg_pool2d_backward(dy, got_dx, o);
  CHECK(normalised_error(got_dx.to_vector<double>(), dx) <= tolerance(dtype));
}

std::string describe(const Case& c) {
  return fmt::format("[{},{},{},{}] kernel {},{} stride {},{} padding {},{}", c.n, c.h, c.w, c.c,
                     c.options.kernel[0], c.options.kernel[1], c.options.stride[0], c.options.stride[1],
                     c.options.padding[0], c.options.padding[1]);
}

}  // namespace

TEST_CASE("max pooling, its gradient and its selection agree with loops", "[pool]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Case& c : kCases) {
      INFO(describe(c) << ' ' << name_of(dtype));
      check_max(c, dtype);
    }
  }
}

TEST_CASE("average pooling and its gradient agree with loops", "[pool]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (Case c : kCases) {
      for (const bool include : {true, false}) {
        c.options.count_include_pad = include;
        INFO(describe(c) << ' ' << name_of(dtype) << " padding counted: " << include);
        check_average(c, dtype);
      }
    }
  }
}

TEST_CASE("adaptive average pooling and its gradient agree with loops", "[pool]") {
  for (const auto& [in, out] : {std::pair{7, 1}, {7, 3}, {8, 4}, {5, 5}, {3, 7}, {1, 4}, {10, 7}}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const Index h = in, w = in + 2, oh = out, ow = out + 1, channels = 67;
      const Tensor x = normal_tensor({2, h, w, channels}, dtype, 1),
                   dy = normal_tensor({2, oh, ow, channels}, dtype, 2);
      const auto xs = x.to_vector<double>(), gs = dy.to_vector<double>();
      std::vector<double> y(gs.size()), dx(xs.size());
      const auto first = [](Index i, Index extent, Index parts) { return i * extent / parts; };
      const auto last = [](Index i, Index extent, Index parts) {
        return ((i + 1) * extent + parts - 1) / parts;
      };
      for (Index n = 0; n < 2; ++n)
        for (Index oy = 0; oy < oh; ++oy)
          for (Index ox = 0; ox < ow; ++ox)
            for (Index iy = first(oy, h, oh); iy < last(oy, h, oh); ++iy)
              for (Index ix = first(ox, w, ow); ix < last(ox, w, ow); ++ix)
                for (Index k = 0; k < channels; ++k) {
                  const double count = static_cast<double>((last(oy, h, oh) - first(oy, h, oh)) *
                                                           (last(ox, w, ow) - first(ox, w, ow)));
                  const auto from = static_cast<std::size_t>(((n * h + iy) * w + ix) * channels + k);
                  const auto to = static_cast<std::size_t>(((n * oh + oy) * ow + ox) * channels + k);
                  y[to] += xs[from] / count;
                  dx[from] += gs[to] / count;
                }
      const Tensor got = Tensor::empty(dy.shape(), {.dtype = dtype}),
                   got_dx = Tensor::empty(x.shape(), {.dtype = dtype});
      cpu::backend().pool().adaptive_avg_pool2d(x, got);
      CHECK(normalised_error(got.to_vector<double>(), y) <= tolerance(dtype));
      cpu::backend().pool().adaptive_avg_pool2d_backward(dy, got_dx);
      CHECK(normalised_error(got_dx.to_vector<double>(), dx) <= tolerance(dtype));
    }
  }
}

TEST_CASE("max pooling lets NaN through and sees no padding", "[pool]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t channels : {1, 16, 80}) {
    std::vector<float> image;
    for (const float value : {-1.0f, nan, -3.0f, -4.0f}) image.insert(image.end(), channels, value);
    const Index c = static_cast<Index>(channels);
    const Tensor x = Tensor::from(image, {1, 2, 2, c});
    const Tensor y = Tensor::empty({1, 2, 2, c}), where = Tensor::empty({1, 2, 2, c}, {.dtype = DType::u8});
    cpu::backend().pool().max_pool2d(x, y, where, {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}});
    const auto values = y.to_vector<float>();
    const auto positions = where.to_vector<int>();
    for (std::size_t i = 0; i < channels; ++i) {
      CHECK(values[i] == -1.0f);  // not the zero of the padding
      CHECK(std::isnan(values[channels + i]));
      CHECK(values[2 * channels + i] == -3.0f);
      CHECK(values[3 * channels + i] == -4.0f);
      for (std::size_t k = 0; k < 4; ++k) CHECK(positions[k * channels + i] == 3 - static_cast<int>(k));
    }
    // A NaN inside a larger window wins wherever it stands.
    const Tensor one = Tensor::empty({1, 1, 1, c}), at = Tensor::empty({1, 1, 1, c}, {.dtype = DType::u8});
    cpu::backend().pool().max_pool2d(x, one, at, {});
    CHECK(std::isnan(one.to_vector<float>()[channels - 1]));
    CHECK(at.to_vector<int>()[channels - 1] == 1);
  }
}
