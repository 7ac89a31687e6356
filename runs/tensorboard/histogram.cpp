#include "runs/tensorboard/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tandem::tensorboard {

namespace {

constexpr int kMantissa = 21;  // mantissa bits below the two that select the bucket
constexpr std::uint32_t kBuckets = 12 * 4, kNone = 0x7f800000u >> kMantissa;

std::uint32_t bucket(float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7fffffffu) >> kMantissa; }
double lower_edge(std::uint32_t bucket) { return std::bit_cast<float>(bucket << kMantissa); }

// Appends a bucket, and before it an empty one for a gap.
void append(Histogram& to, double from, double until, std::int64_t count) {
  if (count == 0) return;
  if (!to.limits.empty() && to.limits.back() != from) {
    to.limits.push_back(from);
    to.counts.push_back(0.0);
  }
  to.limits.push_back(until);
  to.counts.push_back(static_cast<double>(count));
}

}  // namespace

Histogram histogram_of(std::span<const float> values, double factor) {
  Histogram result;
  float low = INFINITY, high = -INFINITY;
  double sum = 0.0, squares = 0.0;
  std::int64_t finite = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    squares += static_cast<double>(value) * value;
    ++finite;
  }
  if (finite == 0) return result;
  result.min = low * factor;
  result.max = high * factor;
  result.sum = sum * factor;
  result.sum_squares = squares * factor * factor;
  result.count = static_cast<double>(finite);

  const std::uint32_t top = std::max(bucket(low), bucket(high));
  const std::uint32_t least = top >= kBuckets ? top - kBuckets + 1 : 1;  // smaller values are around zero
  std::array<std::int64_t, kBuckets> positive{}, negative{};
  std::int64_t zero = 0;
  for (const float value : values) {
    const std::uint32_t b = bucket(value);
    if (b >= kNone) continue;
    if (b < least) {
      ++zero;
    } else {
      ++(std::signbit(value) ? negative : positive)[b - least];
    }
  }
  for (std::uint32_t i = top - least + 1; i-- > 0;)
    append(result, -lower_edge(least + i + 1) * factor, -lower_edge(least + i) * factor, negative[i]);
  append(result, -lower_edge(least) * factor, lower_edge(least) * factor, zero);
  for (std::uint32_t i = 0; i < top - least + 1; ++i)
    append(result, lower_edge(least + i) * factor, lower_edge(least + i + 1) * factor, positive[i]);
  return result;
}

}  // namespace tandem::tensorboard
