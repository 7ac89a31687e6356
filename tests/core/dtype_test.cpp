// Conversions against a reference with integers on the bit patterns.
#include "core/dtype.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/convert.h"
#include "core/random.h"
#include "tests/core/binary_format.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
double through(double value) {
  return convert<double>(convert<T>(value));
}

}  // namespace

TEMPLATE_TEST_CASE("all 65,536 patterns widen exactly and come back", "[dtype]", Half, BFloat16) {
  const Format format = format_of<TestType>();
  int wrong = 0, wrong_back = 0, wrong_double = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TestType stored{static_cast<std::uint16_t>(bits)};
    const double expected = format.decode(bits);
    const float wide = convert<float>(stored);
    if (std::isnan(expected)) {
      wrong += !std::isnan(wide);
      wrong_back += !std::isnan(convert<double>(convert<TestType>(wide)));
      wrong_double += !std::isnan(through<TestType>(static_cast<double>(wide)));
      continue;
    }
    wrong += static_cast<double>(wide) != expected || std::signbit(wide) != std::signbit(expected);
    wrong_back += convert<TestType>(wide).bits != bits;
    wrong_double += convert<TestType>(expected).bits != bits;
  }
  CHECK(wrong == 0);
  CHECK(wrong_back == 0);
  CHECK(wrong_double == 0);
}

TEMPLATE_TEST_CASE("between neighbours f32 and f64 round to nearest even", "[dtype]", Half, BFloat16) {
  const Format format = format_of<TestType>();
  const std::uint32_t infinity = static_cast<std::uint32_t>(format.special()) << format.mantissa_bits;
  int wrong = 0;
  std::uint32_t first_wrong = 0;
  for (std::uint32_t bits = 0; bits + 1 < infinity; ++bits) {
    const double low = format.decode(bits), high = format.decode(bits + 1), middle = (low + high) / 2;
    const double nearly = 1e-12 * (high - low);
    for (const double sign : {1.0, -1.0}) {
      for (const double value :
           {middle, middle - nearly, middle + nearly, low + (high - low) / 4, std::nextafter(low, high)}) {
        if (convert<TestType>(sign * value).bits != format.encode(sign * value)) ++wrong, first_wrong = bits;
        const auto single = static_cast<float>(sign * value);
        if (convert<TestType>(single).bits != format.encode(single)) ++wrong, first_wrong = bits;
      }
    }
  }
  INFO("last wrong below pattern " << first_wrong);
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("random doubles of every magnitude round once", "[dtype]", Half, BFloat16) {
  const Format format = format_of<TestType>();
  RandomStream stream({.seed = 7});
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t bits = std::uint64_t{stream.next_word()} << 32 | stream.next_word();
    double value = std::bit_cast<double>(bits);
    if (i % 2) value = std::ldexp(1.0 + stream.uniform(), static_cast<int>(stream.below(300)) - 150);
    if (std::isnan(value)) continue;
    wrong += convert<TestType>(value).bits != format.encode(value);
  }
  CHECK(wrong == 0);
}

TEST_CASE("rounding vectors of FP16 and BF16", "[dtype]") {
  CHECK(through<Half>(65519.99) == 65504.0);
  CHECK(through<Half>(65520.0) == kInfinity);
  CHECK(through<Half>(-65520.0) == -kInfinity);
  CHECK(through<Half>(0x1p-24) == 0x1p-24);
  CHECK(through<Half>(0x1p-25) == 0.0);
  CHECK(std::signbit(through<Half>(-0x1p-25)));
  CHECK(through<Half>(1.0001 * 0x1p-25) == 0x1p-24);
  CHECK(through<Half>(1e-8) == 0.0);
  CHECK(through<Half>(0x1p-3 + 0x1p-14) == 0.125);
  CHECK(through<Half>(0x1p-3 + 3 * 0x1p-14) == 0.125244140625);
  CHECK(through<Half>(2049.0) == 2048.0);
  CHECK(through<Half>(2051.0) == 2052.0);
  CHECK(through<BFloat16>(1 + 0x1p-8) == 1.0);
  CHECK(through<BFloat16>(1 + 3 * 0x1p-8) == 1.015625);
  CHECK(through<BFloat16>(257.0) == 256.0);
  // 65519.99 is a tie as a float: the same vector must hold where the source is f64 only.
  CHECK(convert<float>(convert<Half>(65519.99f)) == 65504.0f);
}

TEST_CASE("f64 to 16 bits does not round twice", "[dtype]") {
  // A hair above a tie: through f32 the hair is lost and the tie goes down.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  CHECK(static_cast<double>(static_cast<float>(above)) == 1.0 + 0x1p-11);
  CHECK(through<Half>(above) == 1.0 + 0x1p-10);
  CHECK(through<BFloat16>(1.0 + 0x1p-8 + 0x1p-40) == 1.0 + 0x1p-7);
  // A hair below one: down, although the even neighbour is above.
  CHECK(through<Half>(1.0 + 3 * 0x1p-11 - 0x1p-40) == 1.0 + 0x1p-10);
  CHECK(through<BFloat16>(-(1.0 + 3 * 0x1p-8 - 0x1p-40)) == -(1.0 + 0x1p-7));
  CHECK(through<Half>(65520.0 - 1e-9) == 65504.0);
  CHECK(through<Half>(0x1p-25 + 0x1p-70) == 0x1p-24);
  CHECK(through<Half>(1e-300) == 0.0);
  CHECK(through<BFloat16>(std::numeric_limits<double>::max()) == kInfinity);
  CHECK(std::isnan(through<Half>(std::nan(""))));
}

TEST_CASE("integers to 16 bits round once", "[dtype]") {
  const std::int64_t tie = (std::int64_t{1} << 30) + (1 << 22);  // between two bfloat16 numbers
  CHECK(convert<double>(convert<BFloat16>(tie)) == 0x1p30);
  CHECK(convert<double>(convert<BFloat16>(tie + 1)) == 0x1p30 + 0x1p23);
  CHECK(convert<double>(convert<BFloat16>(static_cast<std::int32_t>(tie + 1))) == 0x1p30 + 0x1p23);
  const std::int64_t huge = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  CHECK(convert<double>(convert<BFloat16>(huge)) == 0x1p62);
  CHECK(convert<double>(convert<BFloat16>(huge + 1)) == 0x1p62 + 0x1p55);
  CHECK(convert<double>(convert<BFloat16>(-huge - 1)) == -0x1p62 - 0x1p55);
  CHECK(convert<double>(convert<Half>(std::int32_t{65519})) == 65504.0);
  CHECK(convert<double>(convert<Half>(std::int32_t{65520})) == kInfinity);
  CHECK(convert<double>(convert<Half>(std::int64_t{2051})) == 2052.0);
  CHECK(convert<double>(convert<BFloat16>(std::numeric_limits<std::int64_t>::min())) == -0x1p63);
}

TEST_CASE("floating to integral truncates, anything but zero is true", "[dtype]") {
  CHECK(convert<std::int32_t>(-1.9) == -1);
  CHECK(convert<std::int64_t>(2.99f) == 2);
  CHECK(convert<std::uint8_t>(convert<Half>(3.75)) == 3);
  CHECK(convert<bool>(1e-30f));
  CHECK(convert<bool>(convert<Half>(0x1p-24)));
  CHECK_FALSE(convert<bool>(-0.0));
  CHECK(convert<bool>(std::nan("")));
  CHECK(convert<bool>(std::int64_t{1} << 40));
  CHECK(convert<std::uint8_t>(true) == 1);
  CHECK(convert<float>(std::int64_t{16777217}) == 16777216.0f);
}

TEST_CASE("names and sizes", "[dtype]") {
  const char* names[] = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"};
  const std::size_t sizes[] = {8, 4, 2, 2, 8, 4, 1, 1};
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(name_of(dtype) == names[i]);
    CHECK(dtype_from_name(names[i]) == dtype);
    CHECK(size_of(dtype) == sizes[i]);
    CHECK(is_floating(dtype) == (i < 4));
    CHECK(is_integral(dtype) == (i >= 4));
    CHECK(is_16bit(dtype) == (i == 2 || i == 3));
    CHECK(visit_dtype(dtype, [](auto tag) { return dtype_of<typename decltype(tag)::type>(); }) == dtype);
  }
  CHECK_FALSE(dtype_from_name("float"));
  CHECK_FALSE(dtype_from_name(""));
}

TEST_CASE("promotion", "[dtype]") {
  // Rows and columns in the order of the enumerators.
  using enum DType;
  const DType expected[kDTypeCount][kDTypeCount] = {
      {f64, f64, f64, f64, f64, f64, f64, f64},  {f64, f32, f32, f32, f32, f32, f32, f32},
      {f64, f32, f16, f32, f16, f16, f16, f16},  {f64, f32, f32, bf16, bf16, bf16, bf16, bf16},
      {f64, f32, f16, bf16, i64, i64, i64, i64}, {f64, f32, f16, bf16, i64, i32, i32, i32},
      {f64, f32, f16, bf16, i64, i32, u8, u8},   {f64, f32, f16, bf16, i64, i32, u8, boolean},
  };
  for (int a = 0; a < kDTypeCount; ++a) {
    for (int b = 0; b < kDTypeCount; ++b) {
      INFO(name_of(static_cast<DType>(a)) << " with " << name_of(static_cast<DType>(b)));
      CHECK(promote(static_cast<DType>(a), static_cast<DType>(b)) == expected[a][b]);
    }
  }
}

TEST_CASE("an integral dtype where a floating one is needed is an internal error", "[dtype]") {
  CHECK_THROWS_WITH(visit_floating(DType::i32, [](auto) { return 0; }), Catch::Contains("i32"));
}
