// Large products whose rows are not aligned to 16 bytes, such as those of a vocabulary that is no multiple of
// 8.
#include <cmath>

#include "core/kernels/matmul.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Multiples of 1/8 whose products and sums are exact in any order.
Tensor exact(const Shape& shape, DType dtype, std::uint64_t seed) {
  std::vector<double> values = random_values(shape.numel(), seed, -4.0, 5.0);
  for (double& value : values) value = std::floor(value) / 8.0;
  const Tensor wide = Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
  const Tensor result = Tensor::empty(shape, {dtype, {}});
  backend_for({}).cast(wide, result, false);
  return result;
}

struct Case {
  Shape a, b, c;
  bool transpose_a = false, transpose_b = false, bias = false, accumulate = false;
  DType in = DType::bf16, out = DType::bf16;
};

std::vector<double> product_of(const Case& of, Device device) {
  const Tensor a = exact(of.a, of.in, 1).to(device), b = exact(of.b, of.in, 2).to(device);
  const Tensor bias = of.bias ? exact({of.c[of.c.rank() - 1]}, of.out, 3).to(device) : Tensor();
  const Tensor c = exact(of.c, of.out, 4).to(device);
  backend_for(device).matmul().matmul(
      a, b, bias, c,
      {.transpose_a = of.transpose_a, .transpose_b = of.transpose_b, .accumulate = of.accumulate});
  return c.to_vector<double>();
}

}  // namespace

TEST_CASE("large products have rows on 16 bytes and the bits of the host's", "[device][matmul]") {
  constexpr Index kRows = 1027, kWords = 1031, kUnits = 1021;
  const Case cases[] = {
      // Logits, and the gradients of what they were made of and of the words.
      {{kRows, kUnits}, {kWords, kUnits}, {kRows, kWords}, false, true, true},
      {{kRows, kWords},
       {kWords, kUnits},
       {kRows, kUnits},
       false,
       false,
       false,
       false,
       DType::f16,
       DType::f16},
      {{kRows, kWords}, {kRows, kUnits}, {kWords, kUnits}, true, false, false, true, DType::bf16, DType::f32},
      // Matrices of a batch, of both and of a alone.
      {{3, 709, 711}, {3, 711, 713}, {3, 709, 713}},
      {{3, 711, 709}, {711, 713}, {3, 709, 713}, true, false, true, false, DType::f16, DType::f32}};
  const Emulator emulated = emulator();
  for (const Case& of : cases) {
    CAPTURE(to_string(of.a), to_string(of.b), name_of(of.in), name_of(of.out));
    const std::uint64_t before = emulated ? emulated.counts().unaligned_products : 0;
    const std::vector<double> found = product_of(of, test_device());
    if (emulated) CHECK(emulated.counts().unaligned_products == before);
    CHECK(found == product_of(of, {}));
  }
}

TEST_CASE("large products of TF32 have rows on 16 bytes", "[device][matmul]") {
  const Case of{{1027, 1021}, {1031, 1021}, {1027, 1031}, false, true, true, true, DType::f32, DType::f32};
  backend_under_test().set_rules({.allow_tf32 = true, .deterministic = true, .autotune = false});
  const std::vector<double> found = product_of(of, test_device());
  backend_under_test().set_rules({.allow_tf32 = false, .deterministic = true, .autotune = false});
  CHECK(found == product_of(of, {}));
}

TEST_CASE("small products are not copied", "[device][matmul]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const std::uint64_t before = emulated.counts().unaligned_products;
  product_of({{5, 7}, {7, 9}, {5, 9}}, test_device());
  CHECK(emulated.counts().unaligned_products == before + 1);
}
