// One step of a reduction, in every type.
#include "parallel/arithmetic.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace tandem;
using namespace tandem::parallel;

namespace {

template <class T>
float reduced(float a, float b, Reduction reduction) {
  const T values[] = {convert<T>(a), convert<T>(b)};
  T result = values[1];
  combine(&values[0], &result, 1, reduction);
  return convert<float>(result);
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEMPLATE_TEST_CASE("floating types are summed, and compared with NaN on either side", "[parallel]", double,
                   float, Half, BFloat16) {
  CHECK(reduced<TestType>(1.5f, -3.0f, Reduction::sum) == -1.5f);
  CHECK(reduced<TestType>(1.5f, -3.0f, Reduction::min) == -3.0f);
  CHECK(reduced<TestType>(1.5f, -3.0f, Reduction::max) == 1.5f);
  CHECK(reduced<TestType>(kInf, 1.0f, Reduction::min) == 1.0f);
  CHECK(reduced<TestType>(-kInf, 1.0f, Reduction::max) == 1.0f);
  for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
    CHECK(std::isnan(reduced<TestType>(kNan, 1.0f, reduction)));
    CHECK(std::isnan(reduced<TestType>(1.0f, kNan, reduction)));
  }
  // The order of two zeros does not matter.
  for (const auto& [a, b] : {std::pair(0.0f, -0.0f), std::pair(-0.0f, 0.0f)}) {
    CHECK(std::signbit(reduced<TestType>(a, b, Reduction::min)));
    CHECK_FALSE(std::signbit(reduced<TestType>(a, b, Reduction::max)));
  }
}

TEST_CASE("16-bit sums are rounded once, to nearest even", "[parallel]") {
  CHECK(reduced<Half>(2048.0f, 1.0f, Reduction::sum) == 2048.0f);
  CHECK(reduced<Half>(2048.0f, 3.0f, Reduction::sum) == 2052.0f);
  CHECK(reduced<Half>(65504.0f, 16.0f, Reduction::sum) == kInf);
  CHECK(reduced<BFloat16>(256.0f, 1.0f, Reduction::sum) == 256.0f);
  CHECK(reduced<BFloat16>(256.0f, 3.0f, Reduction::sum) == 260.0f);
}

TEST_CASE("sums of integers wrap around", "[parallel]") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(combined(kMost, std::int64_t{1}, Reduction::sum) == std::numeric_limits<std::int64_t>::min());
  CHECK(combined(kMost, std::int64_t{-1}, Reduction::min) == -1);
  CHECK(combined(kMost, std::int64_t{-1}, Reduction::max) == kMost);
}
