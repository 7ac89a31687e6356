// Floats at the decision points of rounding to 16 bits, with their results.
#pragma once

#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "tests/core/binary_format.h"

namespace tandem::test {

struct NarrowingCases {
  std::vector<float> values;            // no NaN
  std::vector<std::uint16_t> expected;  // as many
};

// Vectors with known results (half an ulp below and at the overflow, smallest subnormals, ties to even).
template <class S>
std::vector<std::pair<float, double>> rounding_vectors() {
  const double infinity = std::numeric_limits<double>::infinity();
  if constexpr (std::is_same_v<S, Half>) {
    return {{65519.99f, 65504.0},
            {65520.0f, infinity},
            {-65520.0f, -infinity},
            {0x1p-24f, 0x1p-24},
            {0x1p-25f, 0.0},
            {-0x1p-25f, -0.0},
            {1.0001f * 0x1p-25f, 0x1p-24},
            {1e-8f, 0.0},
            {0x1p-3f + 0x1p-14f, 0.125},
            {0x1p-3f + 3 * 0x1p-14f, 0.125244140625},
            {2049.0f, 2048.0},
            {2051.0f, 2052.0}};
  } else {
    return {{1.0f + 0x1p-8f, 1.0}, {1.0f + 3 * 0x1p-8f, 1.015625}, {257.0f, 256.0}};
  }
}

// Every value of the type, every half-way point between neighbours and before the overflow, the floats on
// both sides of it, and the rounding vectors; with both signs.
template <class S>
const NarrowingCases& narrowing_cases() {
  static const NarrowingCases cases = [] {
    NarrowingCases made;
    const Format format = format_of<S>();
    const auto add = [&](float value, std::uint32_t bits) {
      for (const bool negative : {false, true}) {
        made.values.push_back(negative ? -value : value);
        made.expected.push_back(static_cast<std::uint16_t>(negative ? bits ^ 0x8000u : bits));
      }
    };
    const std::uint32_t infinity = static_cast<std::uint32_t>(format.special()) << format.mantissa_bits;
    for (std::uint32_t bits = 0; bits < infinity; ++bits) {
      const double low = format.decode(bits);
      const double high = bits + 1 < infinity ? format.decode(bits + 1) : 2 * low - format.decode(bits - 1);
      const auto middle = static_cast<float>(low + (high - low) / 2);  // exact
      add(static_cast<float>(low), bits);
      add(std::nextafter(middle, 0.0f), bits);
      add(middle, bits % 2 == 0 ? bits : bits + 1);
      add(std::nextafter(middle, std::numeric_limits<float>::infinity()), bits + 1);
    }
    add(std::numeric_limits<float>::infinity(), infinity);
    add(std::numeric_limits<float>::max(), infinity);
    add(std::numeric_limits<float>::denorm_min(), 0);
    for (const auto& [value, result] : rounding_vectors<S>()) {
      made.values.push_back(value);
      made.expected.push_back(static_cast<std::uint16_t>(format.encode(result)));
    }
    return made;
  }();
  return cases;
}

// Quiet and signalling NaNs whose payload lies in the upper, in the lower and in all bits, with both signs.
inline std::vector<float> nan_values() {
  std::vector<float> values;
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7f808000u, 0x7fbfffffu, 0x7fffffffu}) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  return values;
}

template <class S>
bool is_quiet_nan(S stored) {
  const Format format = format_of<S>();
  const std::uint32_t quiet = static_cast<std::uint32_t>(2 * format.special() + 1)
                              << (format.mantissa_bits - 1);
  return (stored.bits & quiet) == quiet;
}

// How many of the results are not those expected.
template <class S>
std::size_t count_wrong(const S* results, const NarrowingCases& cases) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < cases.values.size(); ++i) wrong += results[i].bits != cases.expected[i];
  return wrong;
}

// Every pattern of the type in order, and how many floats are not their values.
template <class S>
std::vector<S> all_patterns() {
  std::vector<S> patterns;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) patterns.push_back(S{static_cast<std::uint16_t>(bits)});
  return patterns;
}

template <class S>
std::size_t count_wrong_widened(const float* widened) {
  const Format format = format_of<S>();
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = format.decode(bits);
    const auto got = static_cast<double>(widened[bits]);
    wrong += std::isnan(expected) ? !std::isnan(got)
                                  : got != expected || std::signbit(got) != std::signbit(expected);
  }
  return wrong;
}

}  // namespace tandem::test
