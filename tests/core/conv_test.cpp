// Convolution kernels of the CPU backend against plain loops in double precision.
#include "core/kernels/conv.h"

#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <tuple>

#include "core/backend.h"
#include "core/cpu/level.h"
#include "tests/core/kernel_testing.h"

using namespace tandem;

namespace {

struct Case {
  Index n, h, w, c, o, kh, kw;
  Conv2dOptions options;
};

Index out_extent(Index extent, Index kernel, Index stride, Index padding, Index dilation) {
  return (extent + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}
Index out_height(const Case& c) {
  return out_extent(c.h, c.kh, c.options.stride[0], c.options.padding[0], c.options.dilation[0]);
}
Index out_width(const Case& c) {
  return out_extent(c.w, c.kw, c.options.stride[1], c.options.padding[1], c.options.dilation[1]);
}

// Calls f(index of x, index of the filter, index of y) for every multiplication of the definition.
template <class F>
void for_each_product(const Case& c, F&& f) {
  const Index oh = out_height(c), ow = out_width(c), ci = c.c / c.options.groups, co = c.o / c.options.groups;
  for (Index n = 0; n < c.n; ++n)
    for (Index oy = 0; oy < oh; ++oy)
      for (Index ox = 0; ox < ow; ++ox)
        for (Index o = 0; o < c.o; ++o)
          for (Index ky = 0; ky < c.kh; ++ky)
            for (Index kx = 0; kx < c.kw; ++kx)
              for (Index i = 0; i < ci; ++i) {
                const Index iy = oy * c.options.stride[0] - c.options.padding[0] + ky * c.options.dilation[0];
                const Index ix = ox * c.options.stride[1] - c.options.padding[1] + kx * c.options.dilation[1];
                if (iy < 0 || iy >= c.h || ix < 0 || ix >= c.w) continue;
                f(((n * c.h + iy) * c.w + ix) * c.c + o / co * ci + i, ((o * c.kh + ky) * c.kw + kx) * ci + i,
                  ((n * oh + oy) * ow + ox) * c.o + o);
              }
}

const std::vector<Case> kCases = {
    {2, 9, 9, 16, 16, 3, 3, {.padding = {1, 1}}},
    {2, 9, 8, 16, 32, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {3, 8, 8, 16, 32, 1, 1, {.stride = {2, 2}}},
    {3, 7, 9, 64, 48, 1, 1, {}},
    {2, 6, 5, 32, 64, 3, 3, {.padding = {1, 1}}},
    {2, 7, 7, 64, 64, 3, 3, {.padding = {1, 1}}},
    {1, 14, 14, 64, 64, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {2, 13, 12, 1, 16, 3, 3, {.padding = {1, 1}}},
    {2, 17, 15, 3, 16, 7, 7, {.stride = {2, 2}, .padding = {3, 3}}},
    {2, 9, 11, 1, 32, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {1, 23, 23, 3, 64, 7, 7, {.stride = {2, 2}, .padding = {3, 3}}},
    {2, 8, 9, 5, 7, 3, 2, {.stride = {1, 2}, .padding = {2, 0}}},
    {1, 11, 10, 4, 6, 3, 3, {.padding = {2, 2}, .dilation = {2, 3}}},
    {2, 9, 9, 8, 12, 3, 3, {.padding = {1, 1}, .groups = 4}},
    {2, 9, 9, 13, 13, 3, 3, {.padding = {1, 1}, .groups = 13}},
    {1, 10, 10, 32, 32, 3, 3, {.stride = {2, 2}, .padding = {1, 1}, .groups = 32}},
    {1, 6, 6, 6, 12, 5, 5, {.padding = {2, 2}, .groups = 6}},
    {2, 5, 5, 3, 17, 5, 5, {}},
    {1, 1, 1, 2, 3, 3, 3, {.padding = {1, 1}}},
    {1, 10, 7, 33, 17, 3, 3, {.stride = {3, 2}, .padding = {0, 1}}},
    {3, 20, 9, 64, 80, 3, 3, {.padding = {1, 1}}},
    {2, 31, 33, 32, 48, 3, 3, {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}}},
    {5, 7, 7, 48, 32, 3, 3, {.padding = {1, 1}}},
    {3, 28, 30, 16, 16, 3, 3, {.padding = {1, 1}}},
    {2, 12, 12, 32, 16, 5, 5, {.stride = {3, 2}, .padding = {2, 2}}},
    {2, 9, 11, 512, 512, 1, 1, {}},
    {2, 8, 7, 512, 544, 1, 1, {.stride = {2, 2}}},
    {2, 12, 10, 96, 64, 1, 1, {.stride = {2, 3}}},
    {1, 30, 20, 64, 64, 1, 1, {.padding = {1, 0}}},
    {2, 9, 9, 128, 160, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {2, 16, 16, 3, 32, 3, 3, {.padding = {1, 1}}},
    {4, 14, 14, 96, 160, 1, 1, {}},
    {3, 4, 5, 64, 80, 4, 5, {.stride = {2, 1}}},
    {6, 1, 24, 40, 33, 1, 24, {}},
    {2, 10, 10, 80, 48, 3, 3, {.stride = {2, 2}, .padding = {1, 1}}},
    {0, 8, 8, 4, 4, 3, 3, {.padding = {1, 1}}},
};

std::string name_of_case(const Case& c) {
  return fmt::format("x [{},{},{},{}] filter [{},{},{}] stride {},{} padding {},{} dilation {},{} groups {}",
                     c.n, c.h, c.w, c.c, c.o, c.kh, c.kw, c.options.stride[0], c.options.stride[1],
                     c.options.padding[0], c.options.padding[1], c.options.dilation[0], c.options.dilation[1],
                     c.options.groups);
}

void check_case(const Case& c, DType dtype) {
  INFO(name_of_case(c) << ' ' << name_of(dtype));
  Backend& backend = cpu::backend();
  const Shape y_shape{c.n, out_height(c), out_width(c), c.o};
  const Tensor x = normal_tensor({c.n, c.h, c.w, c.c}, dtype, 1);
  const Tensor filter = normal_tensor({c.o, c.kh, c.kw, c.c / c.options.groups}, dtype, 2);
  const Tensor bias = normal_tensor({c.o}, dtype, 3);
  const Tensor dy = normal_tensor(y_shape, dtype, 4);
  const auto xs = x.to_vector<double>(), ws = filter.to_vector<double>(), bs = bias.to_vector<double>(),
             gs = dy.to_vector<double>();
  std::vector<double> y(gs.size()), dx(xs.size()), dw(ws.size());
  for_each_product(c, [&](Index i, Index j, Index k) {
    y[k] += xs[i] * ws[j];
    dx[i] += gs[k] * ws[j];
    dw[j] += gs[k] * xs[i];
  });
  const double limit = tolerance(dtype);

  const Tensor got = Tensor::empty(y_shape, {.dtype = dtype});
  backend.conv().conv2d(x, filter, {}, got, c.options);
  CHECK(normalised_error(got.to_vector<double>(), y) <= limit);
  backend.conv().conv2d(x, filter, bias, got, c.options);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += bs[i % bs.size()];
  CHECK(normalised_error(got.to_vector<double>(), y) <= limit);

  const Tensor got_dx = Tensor::empty(x.shape(), {.dtype = dtype});
  backend.conv().conv2d_input_gradient(dy, filter, got_dx, c.options, false);
  CHECK(normalised_error(got_dx.to_vector<double>(), dx) <= limit);
  backend.conv().conv2d_input_gradient(dy, filter, got_dx, c.options, true);
  for (double& value : dx) value *= 2;
  CHECK(normalised_error(got_dx.to_vector<double>(), dx) <= limit);

  // Filter gradients are f32 for 16-bit operands: only their own accumulation error remains.
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor got_dw = Tensor::full(filter.shape(), 7.0, {.dtype = wide});
  backend.conv().conv2d_filter_gradient(x, dy, got_dw, c.options, false);
  CHECK(normalised_error(got_dw.to_vector<double>(), dw) <= tolerance_of_sums(dtype, wide));
  backend.conv().conv2d_filter_gradient(x, dy, got_dw, c.options, true);
  for (double& value : dw) value *= 2;
  CHECK(normalised_error(got_dw.to_vector<double>(), dw) <= tolerance_of_sums(dtype, wide));
}

}  // namespace

TEST_CASE("convolution and its gradients agree with loops in double precision", "[conv]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Case& c : kCases) check_case(c, dtype);
  }
}

TEST_CASE("a convolution of mixed dtypes computes in the wider one", "[conv]") {
  for (const Case& c : {Case{2, 6, 6, 8, 8, 3, 3, {.padding = {1, 1}}}, Case{7, 4, 5, 64, 80, 4, 5, {}}}) {
    INFO(name_of_case(c));
    const Tensor x = normal_tensor({c.n, c.h, c.w, c.c}, DType::bf16, 1),
                 filter = normal_tensor({c.o, c.kh, c.kw, c.c}, DType::f32, 2);
    const Tensor y = Tensor::empty({c.n, out_height(c), out_width(c), c.o});
    cpu::backend().conv().conv2d(x, filter, {}, y, c.options);
    const auto xs = x.to_vector<double>(), ws = filter.to_vector<double>();
    std::vector<double> expected(static_cast<std::size_t>(y.numel()));
    for_each_product(c, [&](Index i, Index j, Index k) { expected[k] += xs[i] * ws[j]; });
    CHECK(normalised_error(y.to_vector<double>(), expected) <= 1e-6);
    // A bias in f64 beside 16-bit images makes all of it f64.
    const Tensor bias = normal_tensor({c.o}, DType::f64, 3),
                 wide = Tensor::empty(y.shape(), {.dtype = DType::f64});
    cpu::backend().conv().conv2d(x, filter, bias, wide, c.options);
    const auto offsets = bias.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += offsets[i % offsets.size()];
    CHECK(normalised_error(wide.to_vector<double>(), expected) <= 1e-14);
  }
}

TEST_CASE("packed filters follow an in-place update", "[conv]") {
  const Conv2dOptions options{.padding = {1, 1}};
  // Two filters in one flat storage, as masters are.
  const Tensor flat = normal_tensor({2 * 64 * 9 * 64}, DType::f32, 5);
  const Tensor x = normal_tensor({1, 8, 8, 64}, DType::f32, 6);
  const auto filter_at = [&](Index i) {
    return flat.rows(i * 64 * 9 * 64, 64 * 9 * 64).viewed({64, 3, 3, 64});
  };
  const auto run = [&](Index i) {
    const Tensor y = Tensor::empty({1, 8, 8, 64}), dx = Tensor::empty({1, 8, 8, 64});
    cpu::backend().conv().conv2d(x, filter_at(i), {}, y, options);
    cpu::backend().conv().conv2d_input_gradient(x, filter_at(i), dx, options, false);
    auto values = y.to_vector<float>();
    const auto more = dx.to_vector<float>();
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const auto first = run(0), second = run(1);
  CHECK(first != second);
  CHECK(run(0) == first);
  float* values = flat.data<float>();
  for (Index i = 0; i < flat.numel(); ++i) values[i] *= 2.0f;
  flat.storage()->bump_version();
  const auto doubled = run(0);
  for (std::size_t i = 0; i < first.size(); ++i) REQUIRE(doubled[i] == 2.0f * first[i]);
}

TEST_CASE("packed copies of fresh filters go with their storage", "[conv]") {
  const Tensor x = normal_tensor({1, 8, 8, 64}, DType::f32, 6), y = Tensor::empty({1, 8, 8, 64});
  const auto once = [&] {
    const Tensor filter = normal_tensor({64, 3, 3, 64}, DType::f32, 7);
    cpu::backend().conv().conv2d(x, filter, {}, y, {.padding = {1, 1}});
  };
  once();
  const auto before = host_allocator().figures().live;
  for (int i = 0; i < 5; ++i) once();
  CHECK(host_allocator().figures().live == before);
}

TEST_CASE("a convolution asks the system for memory once", "[conv]") {
  const Tensor x = normal_tensor({2, 28, 28, 16}, DType::f32, 1),
               filter = normal_tensor({32, 3, 3, 16}, DType::f32, 2);
  const Tensor y = Tensor::empty({2, 14, 14, 32}), dx = Tensor::empty(x.shape()),
               dw = Tensor::empty(filter.shape());
  const Conv2dOptions options{.stride = {2, 2}, .padding = {1, 1}};
  const auto step = [&] {
    cpu::backend().conv().conv2d(x, filter, {}, y, options);
    cpu::backend().conv().conv2d_filter_gradient(x, y, dw, options, false);
    cpu::backend().conv().conv2d_input_gradient(y, filter, dx, options, true);
    filter.storage()->bump_version();
  };
  step();
  const auto before = host_allocator().figures();
  for (int i = 0; i < 10; ++i) step();
  CHECK(host_allocator().figures().system_requests == before.system_requests);
  CHECK(host_allocator().figures().live == before.live);
}

// Both sum in f32 and round once, in orders of summation of their own: results differ in the rounding of a
// few values at most. In AMX tiles, what is left out of f16 products (kernel_testing.h) is up to 1/64 of the
// distance of two neighbours, more where sums cancel.
TEST_CASE("16-bit convolutions give what f32 ones of the widened operands give, rounded", "[conv]") {
  Backend& backend = cpu::backend();
  const auto converted = [&](const Tensor& from, DType dtype) {
    const Tensor to = Tensor::empty(from.shape(), {.dtype = dtype});
    backend.cast(from, to, false);
    return to;
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Case& c : kCases) {
      if (c.n == 0) continue;
      INFO(name_of_case(c) << ' ' << name_of(dtype));
      const Tensor x = normal_tensor({c.n, c.h, c.w, c.c}, dtype, 1);
      const Tensor filter = normal_tensor({c.o, c.kh, c.kw, c.c / c.options.groups}, dtype, 2);
      const Tensor dy = normal_tensor({c.n, out_height(c), out_width(c), c.o}, dtype, 3);
      const Tensor wide_x = converted(x, DType::f32), wide_filter = converted(filter, DType::f32),
                   wide_dy = converted(dy, DType::f32);
      const auto share_of_others = [&](const Tensor& got, const Tensor& wide) {
        const auto a = got.to_vector<float>(), b = converted(wide, dtype).to_vector<float>();
        std::size_t others = 0;
        for (std::size_t i = 0; i < a.size(); ++i) others += a[i] != b[i];
        return static_cast<double>(others) / static_cast<double>(a.size());
      };
      const Tensor y = Tensor::empty(dy.shape(), {.dtype = dtype}), wide_y = Tensor::empty(dy.shape());
      backend.conv().conv2d(x, filter, {}, y, c.options);
      backend.conv().conv2d(wide_x, wide_filter, {}, wide_y, c.options);
      const double most = dtype == DType::f16 && cpu::level() == cpu::Level::amx ? 0.03 : 0.01;
      CHECK(share_of_others(y, wide_y) <= most);
      const Tensor dx = converted(wide_x, dtype), wide_dx = converted(wide_x, DType::f32);
      for (const bool accumulate : {false, true}) {
        backend.conv().conv2d_input_gradient(dy, filter, dx, c.options, accumulate);
        backend.conv().conv2d_input_gradient(wide_dy, wide_filter, wide_dx, c.options, accumulate);
        CHECK(share_of_others(dx, wide_dx) <= most);
        backend.cast(dx, wide_dx, false);
      }
    }
  }
}

TEST_CASE("16-bit convolutions follow an in-place update and repeat their bits", "[conv]") {
  const Conv2dOptions options{.padding = {1, 1}};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Index channels : {Index{32}, Index{96}}) {  // packed copies that stay, and that do not
      const Tensor filter = normal_tensor({channels, 3, 3, channels}, dtype, 1);
      const Tensor x = normal_tensor({4, 8, 8, channels}, dtype, 2);
      const Tensor y = Tensor::empty(x.shape(), {.dtype = dtype}),
                   dx = Tensor::empty(x.shape(), {.dtype = dtype}), dw = Tensor::empty(filter.shape());
      const auto run = [&] {
        cpu::backend().conv().conv2d(x, filter, {}, y, options);
        cpu::backend().conv().conv2d_input_gradient(y, filter, dx, options, false);
        cpu::backend().conv().conv2d_filter_gradient(x, y, dw, options, false);
        return std::tuple(y.to_vector<float>(), dx.to_vector<float>(), dw.to_vector<float>());
      };
      const auto first = run();
      CHECK(run() == first);
      cpu::backend().fill(filter, 0.0);
      filter.storage()->bump_version();
      CHECK(std::get<0>(run()) == std::vector<float>(static_cast<std::size_t>(y.numel()), 0.0f));
    }
  }
}

TEST_CASE("a convolution gives the same bits every time", "[conv]") {
  const Tensor x = normal_tensor({4, 14, 14, 32}, DType::f32, 1),
               filter = normal_tensor({32, 3, 3, 32}, DType::f32, 2);
  const Tensor y = Tensor::empty({4, 14, 14, 32}), dw = Tensor::empty(filter.shape());
  const auto run = [&] {
    cpu::backend().conv().conv2d(x, filter, {}, y, {.padding = {1, 1}});
    cpu::backend().conv().conv2d_filter_gradient(x, y, dw, {.padding = {1, 1}}, false);
    return std::pair(y.to_vector<float>(), dw.to_vector<float>());
  };
  const auto first = run();
  for (int i = 0; i < 3; ++i) CHECK(run() == first);
}
