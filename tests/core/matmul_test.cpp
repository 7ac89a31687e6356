// Matrix products of the CPU backend against plain loops in double precision.
#include "core/kernels/matmul.h"

#include <fmt/core.h>

#include <catch2/catch.hpp>

#include "tests/core/kernel_testing.h"

using namespace tandem;

namespace {

struct Case {
  Index batch_a, batch_b, m, n, k;  // batch 0: no batch axis
};

const std::vector<Case> kCases = {
    {0, 0, 1, 1, 1},       {0, 0, 3, 5, 7},      {0, 0, 64, 64, 64}, {0, 0, 33, 65, 129}, {0, 0, 128, 10, 64},
    {0, 0, 1, 1000, 96},   {0, 0, 200, 1, 300},  {3, 3, 5, 6, 7},    {4, 4, 40, 48, 56},  {3, 0, 17, 31, 80},
    {0, 3, 17, 31, 80},    {2, 0, 64, 64, 64},   {0, 2, 64, 64, 64}, {0, 0, 4, 4, 0},     {0, 0, 0, 4, 4},
    {0, 0, 70, 72, 0},     {5, 5, 1, 1, 33},     {1, 1, 48, 48, 48}, {1, 0, 50, 40, 30},  {0, 1, 50, 40, 30},
    {0, 0, 300, 70, 1100}, {0, 0, 40, 1100, 70},
};

void check(const Case& c, bool ta, bool tb, DType dtype) {
  INFO(fmt::format("batch {}/{} m {} n {} k {} transposed {}{} {}", c.batch_a, c.batch_b, c.m, c.n, c.k, ta,
                   tb, name_of(dtype)));
  const auto shape_of = [](Index batch, Index rows, Index columns) {
    return batch ? Shape{batch, rows, columns} : Shape{rows, columns};
  };
  const Tensor a =
      normal_tensor(ta ? shape_of(c.batch_a, c.k, c.m) : shape_of(c.batch_a, c.m, c.k), dtype, 1);
  const Tensor b =
      normal_tensor(tb ? shape_of(c.batch_b, c.n, c.k) : shape_of(c.batch_b, c.k, c.n), dtype, 2);
  const Tensor bias = normal_tensor({c.n}, dtype, 3);
  const Index batch = std::max({c.batch_a, c.batch_b, Index{1}});
  const Shape shape = shape_of(c.batch_a || c.batch_b ? batch : 0, c.m, c.n);
  const auto as = a.to_vector<double>(), bs = b.to_vector<double>(), biases = bias.to_vector<double>();
  std::vector<double> expected(static_cast<std::size_t>(batch * c.m * c.n));
  for (Index i = 0; i < batch; ++i)
    for (Index r = 0; r < c.m; ++r)
      for (Index s = 0; s < c.n; ++s)
        for (Index t = 0; t < c.k; ++t) {
          const Index at = (c.batch_a ? i * c.m * c.k : 0) + (ta ? t * c.m + r : r * c.k + t);
          const Index bt = (c.batch_b ? i * c.k * c.n : 0) + (tb ? s * c.k + t : t * c.n + s);
          expected[static_cast<std::size_t>((i * c.m + r) * c.n + s)] +=
              as[static_cast<std::size_t>(at)] * bs[static_cast<std::size_t>(bt)];
        }

  const Tensor got = Tensor::full(shape, 3.0, {.dtype = dtype});
  Backend& backend = cpu::backend();
  backend.matmul().matmul(a, b, {}, got, {.transpose_a = ta, .transpose_b = tb});
  CHECK(normalised_error(got.to_vector<double>(), expected) <= tolerance(dtype));
  backend.matmul().matmul(a, b, {}, got, {.transpose_a = ta, .transpose_b = tb, .accumulate = true});
  for (double& value : expected) value *= 2;
  CHECK(normalised_error(got.to_vector<double>(), expected) <= tolerance(dtype));
  backend.matmul().matmul(a, b, bias, got, {.transpose_a = ta, .transpose_b = tb});
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] / 2 + biases[i % biases.size()];
  CHECK(normalised_error(got.to_vector<double>(), expected) <= tolerance(dtype));

  // A 16-bit product kept in f32 has no rounding of its own.
  if (is_16bit(dtype)) {
    const Tensor wide = Tensor::empty(shape);
    backend.matmul().matmul(a, b, bias, wide, {.transpose_a = ta, .transpose_b = tb});
    CHECK(normalised_error(wide.to_vector<double>(), expected) <= tolerance_of_sums(dtype, DType::f32));
  }
}

}  // namespace

TEST_CASE("matrix products agree with loops in double precision", "[matmul]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Case& c : kCases) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) check(c, ta, tb, dtype);
      }
    }
  }
}

TEST_CASE("a product asks the system for memory once", "[matmul]") {
  const Tensor a = normal_tensor({128, 96}, DType::f32, 1), b = normal_tensor({64, 96}, DType::f32, 2);
  const Tensor c = Tensor::empty({128, 64}), d = Tensor::empty({96, 64});
  const auto step = [&] {
    cpu::backend().matmul().matmul(a, b, {}, c, {.transpose_b = true});
    cpu::backend().matmul().matmul(a, c, {}, d, {.transpose_a = true});
    b.storage()->bump_version();
  };
  step();
  const auto before = host_allocator().figures();
  for (int i = 0; i < 10; ++i) step();
  CHECK(host_allocator().figures().system_requests == before.system_requests);
  CHECK(host_allocator().figures().live == before.live);
}
