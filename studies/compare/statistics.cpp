#include "studies/compare/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace tandem::compare {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// value / error; an error of zero means that the value is known exactly.
double ratio(double value, double error) {
  if (error > 0.0) return value / error;
  return value == 0.0 ? 0.0 : std::copysign(std::numeric_limits<double>::infinity(), value);
}

}  // namespace

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

double student_t_upper_tail(double t, double df) {
  if (std::isnan(t)) return kNaN;
  if (std::isinf(t)) return t > 0 ? 0.0 : 1.0;
  return boost::math::cdf(boost::math::complement(boost::math::students_t(df), t));
}

double student_t_quantile(double p, double df) {
  ensure(p > 0.0 && p < 1.0 && df > 0.0, "student_t_quantile", "p {}, {} degrees of freedom", p, df);
  return boost::math::quantile(boost::math::students_t(df), p);
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
  const auto p_above = [&](double bound) {
    return student_t_upper_tail(ratio(test.delta - bound, error), df);
  };
  const auto p_below = [&](double bound) {
    return student_t_upper_tail(ratio(bound - test.delta, error), df);
  };
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
      verdict.reason = fmt::format("diverged with {} seeds, unlike the baseline", arm.diverged);
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
