// Checks of an implementation of core/cpu/kernels/simd.h on all 65,536 patterns of a 16-bit type and the
// floats between them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/core/narrowing_cases.h"
#include "tests/simd/path.h"

namespace tandem::test {

inline constexpr std::int64_t kBlockLengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 1000};

template <class S>
void check_narrowing(const SimdFunctions<S>& path) {
  const NarrowingCases& cases = narrowing_cases<S>();
  const auto count = static_cast<std::int64_t>(cases.values.size());
  constexpr std::uint16_t kSentinel = 0xabcd;
  // Blocks of every remainder by 16; what lies behind a block stays.
  for (const std::int64_t length : kBlockLengths) {
    std::vector<S> results(cases.values.size() + 1, S{kSentinel});
    bool overrun = false;
    for (std::int64_t first = 0; first < count; first += length) {
      const std::int64_t n = std::min(length, count - first);
      path.narrow(cases.values.data() + first, results.data() + first, n);
      overrun = overrun || results[static_cast<std::size_t>(first + n)].bits != kSentinel;
    }
    INFO("blocks of " << length);
    CHECK(count_wrong(results.data(), cases) == 0);
    CHECK_FALSE(overrun);
  }
  const std::int64_t whole = count / 16 * 16;
  alignas(64) S streamed[16];
  std::size_t wrong = 0;
  for (std::int64_t first = 0; first < whole; first += 16) {
    path.stream(cases.values.data() + first, streamed);
    for (std::int64_t i = 0; i < 16; ++i)
      wrong += streamed[i].bits != cases.expected[static_cast<std::size_t>(first + i)];
  }
  CHECK(wrong == 0);
}

template <class S>
void check_nan(const SimdFunctions<S>& path) {
  // Alone, and beside numbers that take other branches.
  for (const float neighbour : {1.0f, 1e-40f, std::numeric_limits<float>::infinity()}) {
    for (const float nan : nan_values()) {
      for (int lane = 0; lane < 17; ++lane) {
        std::vector<float> values(17, neighbour);
        values[static_cast<std::size_t>(lane)] = nan;
        std::vector<S> results(17);
        path.narrow(values.data(), results.data(), 17);
        for (int i = 0; i < 17; ++i) {
          const S result = results[static_cast<std::size_t>(i)];
          const std::uint32_t expected = format_of<S>().encode(static_cast<double>(neighbour));
          if (i == lane ? !is_quiet_nan(result) : result.bits != expected)
            FAIL_CHECK("lane " << i << " holds " << result.bits);
        }
      }
    }
  }
}

template <class S>
void check_widening(const SimdFunctions<S>& path) {
  const std::vector<S> patterns = all_patterns<S>();
  for (const std::int64_t length : kBlockLengths) {
    INFO("blocks of " << length);
    std::vector<float> widened(65536 + 1, 42.0f);
    std::vector<S> back(65536);
    bool overrun = false;
    for (std::int64_t first = 0; first < 65536; first += length) {
      const std::int64_t n = std::min<std::int64_t>(length, 65536 - first);
      path.widen(patterns.data() + first, widened.data() + first, n);
      overrun = overrun || widened[static_cast<std::size_t>(first + n)] != 42.0f;
      path.narrow(widened.data() + first, back.data() + first, n);
    }
    CHECK(count_wrong_widened<S>(widened.data()) == 0);
    CHECK_FALSE(overrun);
    std::size_t wrong = 0;
    for (std::size_t bits = 0; bits < 65536; ++bits)
      wrong += std::isnan(widened[bits]) ? !is_quiet_nan(back[bits]) : back[bits].bits != bits;
    CHECK(wrong == 0);
  }
}

template <class S>
void check_simd(const SimdFunctions<S>& path) {
  check_narrowing(path);
  check_nan(path);
  check_widening(path);
}

// Of sixteen lanes: every one counts once.
inline void check_folds(const SimdPath& path) {
  float x[16];
  for (int lane = 0; lane < 16; ++lane) {
    for (int i = 0; i < 16; ++i) x[i] = i == lane ? 3.0f : -static_cast<float>(i + 1);
    CAPTURE(lane);
    CHECK(path.largest(x) == 3.0f);
    CHECK(path.sum(x) == static_cast<float>(lane + 1 - 136 + 3));
  }
}

inline void check_powers_of_two(const SimdPath& path) {
  for (int first = -126; first <= 127; first += 16) {
    float exponents[16], powers[16];
    for (int i = 0; i < 16; ++i) exponents[i] = static_cast<float>(std::min(first + i, 127));
    path.power_of_two(exponents, powers);
    for (int i = 0; i < 16; ++i) CHECK(powers[i] == std::ldexp(1.0f, std::min(first + i, 127)));
  }
}

}  // namespace tandem::test
