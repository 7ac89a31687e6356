#include "studies/compare/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace tandem::compare {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The continued fraction of DLMF 8.17.22; converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEpsilon = 1e-16;
  constexpr int kTerms = 10000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1.0, d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)), h = d;
  for (int m = 1; m <= kTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1.0 / away_from_zero(1.0 + even * d);
    c = away_from_zero(1.0 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1.0 / away_from_zero(1.0 + odd * d);
    c = away_from_zero(1.0 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1.0) < kEpsilon) break;
  }
  return h;
}

// P(T > t), accurate in the tail.
double upper_tail(double t, double df) {
  if (std::isnan(t)) return kNaN;
  if (std::isinf(t)) return t > 0 ? 0.0 : 1.0;
  const double tail = 0.5 * incomplete_beta(0.5 * df, 0.5, df / (df + t * t));
  return t >= 0 ? tail : 1.0 - tail;
}

// value / error, where an error of zero means that the value is known exactly.
double ratio(double value, double error) {
  if (error > 0.0) return value / error;
  return value == 0.0 ? 0.0 : std::copysign(std::numeric_limits<double>::infinity(), value);
}

}  // namespace

double incomplete_beta(double a, double b, double x) {
  ensure(a > 0.0 && b > 0.0 && x >= 0.0 && x <= 1.0, "incomplete_beta", "a {}, b {}, x {}", a, b, x);
  if (x == 0.0 || x == 1.0) return x;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1.0) / (a + b + 2.0)) return front * beta_fraction(a, b, x) / a;
  return 1.0 - front * beta_fraction(b, a, 1.0 - x) / b;
}

double student_t_cdf(double t, double df) { return upper_tail(-t, df); }

double student_t_quantile(double p, double df) {
  ensure(p > 0.0 && p < 1.0 && df > 0.0, "student_t_quantile", "p {}, {} degrees of freedom", p, df);
  if (p == 0.5) return 0.0;
  if (p < 0.5) return -student_t_quantile(1.0 - p, df);
  const double tail = 1.0 - p;
  double low = 0.0, high = 1.0;
  while (upper_tail(high, df) > tail) high *= 2.0;
  while (true) {  // ends when no number lies between
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) return high;
    (upper_tail(middle, df) > tail ? low : high) = middle;
  }
}

double mean(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  const double center = mean(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double correlation(std::span<const double> a, std::span<const double> b) {
  ensure(a.size() == b.size(), "correlation", "{} values and {}", a.size(), b.size());
  const double mean_a = mean(a), mean_b = mean(b);
  double aa = 0.0, bb = 0.0, ab = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : kNaN;
}

double quantile(std::vector<double> values, double q) {
  ensure(!values.empty(), "quantile", "of no values");
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

PairedTest paired_test(std::span<const double> arm, std::span<const double> baseline, double margin,
                       bool greater_is_better) {
  ensure(arm.size() == baseline.size(), "paired_test", "{} values and {}", arm.size(), baseline.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < arm.size(); ++i) differences.push_back(arm[i] - baseline[i]);
  PairedTest test;
  test.pairs = differences.size();
  test.delta = mean(differences);
  test.sd = standard_deviation(differences);
  test.correlation = correlation(arm, baseline);
  if (test.pairs < 2) {
    test.low = test.high = test.detectable = kNaN;
    return test;
  }
  const auto n = static_cast<double>(test.pairs);
  const double df = n - 1.0, error = test.sd / std::sqrt(n);
  const double t95 = student_t_quantile(1.0 - kAlpha, df);
  test.low = test.delta - t95 * error;
  test.high = test.delta + t95 * error;
  test.detectable = (t95 + student_t_quantile(0.9, df)) * error;
  const auto p_above = [&](double bound) { return upper_tail(ratio(test.delta - bound, error), df); };
  const auto p_below = [&](double bound) { return upper_tail(ratio(bound - test.delta, error), df); };
  test.p_equivalent = std::max(p_above(-margin), p_below(margin));
  test.p_different = std::min(p_above(margin), p_below(-margin));
  test.p_better = greater_is_better ? p_above(0.0) : p_below(0.0);
  test.p_worse = greater_is_better ? p_below(0.0) : p_above(0.0);
  return test;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0.0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double scaled = static_cast<double>(order.size() - rank) * p[order[rank]];
    largest = std::max(largest, std::min(1.0, scaled));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

std::string Verdict::text() const {
  std::string text = equivalence == Equivalence::equivalent       ? "equivalent"
                     : equivalence == Equivalence::not_equivalent ? "not equivalent"
                                                                  : "inconclusive";
  if (better) text += ", better";
  if (worse) text += ", worse";
  return text;
}

std::vector<Verdict> verdicts(std::span<const ArmOutcome> arms) {
  const auto adjusted = [&](double PairedTest::*p) {
    std::vector<double> values;
    for (const ArmOutcome& arm : arms) values.push_back(arm.test.*p);
    return holm(values);
  };
  const auto equivalent = adjusted(&PairedTest::p_equivalent), different = adjusted(&PairedTest::p_different);
  const auto better = adjusted(&PairedTest::p_better), worse = adjusted(&PairedTest::p_worse);
  std::vector<Verdict> verdicts(arms.size());
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const ArmOutcome& arm = arms[i];
    Verdict& verdict = verdicts[i];
    if (arm.baseline_diverged > 0) {
      verdict.reason = fmt::format("the baseline diverged with {} seeds", arm.baseline_diverged);
    } else if (arm.diverged > 0) {
      verdict.equivalence = Equivalence::not_equivalent;
      verdict.worse = true;
      verdict.reason = fmt::format("diverged with {} seeds where the baseline did not", arm.diverged);
    } else if (arm.test.pairs < kFewestPairs) {
      verdict.reason = fmt::format("{} seeds are fewer than {}", arm.test.pairs, kFewestPairs);
    } else {
      verdict.equivalence = equivalent[i] < kAlpha  ? Equivalence::equivalent
                            : different[i] < kAlpha ? Equivalence::not_equivalent
                                                    : Equivalence::inconclusive;
      verdict.better = better[i] < kAlpha;
      verdict.worse = worse[i] < kAlpha;
    }
  }
  return verdicts;
}

}  // namespace tandem::compare
