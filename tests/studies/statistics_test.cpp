// The statistics of a comparison against SciPy and statsmodels, and the verdicts.
#include "studies/compare/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/studies/statistics_reference.h"

using namespace tandem::compare;

namespace {

constexpr double kRelative = 1e-11;

void check_close(double value, double expected, double tolerance = kRelative) {
  INFO(value << " where the reference has " << expected);
  CHECK(std::abs(value - expected) <= tolerance * std::abs(expected) + 1e-300);
}

PairedTest test_of(const std::vector<double>& arm, const std::vector<double>& baseline, double margin = 0.5) {
  return paired_test(arm, baseline, margin, true);
}

const std::vector<double> kBase = {90.0, 91.0, 92.0, 93.0, 94.0};

std::vector<double> shifted(double by, double noise) {
  std::vector<double> values = kBase;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += by + (i % 2 == 0 ? noise : -noise);
  return values;
}

}  // namespace

TEST_CASE("Student's t is that of SciPy", "[statistics]") {
  for (const auto& [t, df, value] : reference::kCdf) {
    INFO("t " << t << " df " << df);
    check_close(student_t_upper_tail(-t, df), value);
  }
  for (const auto& [p, df, value] : reference::kQuantile) {
    INFO("p " << p << " df " << df);
    check_close(student_t_quantile(p, df), value, 1e-10);
  }
}

TEST_CASE("paired tests are those of statsmodels", "[statistics]") {
  for (const auto& row : reference::kPaired) {
    const PairedTest test = test_of(row.arm, row.baseline, row.margin);
    const double values[] = {test.delta,        test.sd,          test.low,      test.high,
                             test.p_equivalent, test.p_different, test.p_better, test.p_worse,
                             test.correlation,  test.detectable};
    REQUIRE(row.values.size() == std::size(values));
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      INFO("value " << i);
      check_close(values[i], row.values[i], 1e-9);
    }
    CHECK(test.pairs == row.arm.size());
    const PairedTest loss = paired_test(row.arm, row.baseline, row.margin, false);
    CHECK(loss.p_better == test.p_worse);
    CHECK(loss.p_worse == test.p_better);
  }
  for (const auto& row : reference::kHolm) {
    const auto adjusted = holm(row.p);
    for (std::size_t i = 0; i < row.p.size(); ++i) check_close(adjusted[i], row.adjusted[i]);
  }
}

TEST_CASE("equal values are equal exactly", "[statistics]") {
  const PairedTest same = test_of(kBase, kBase);
  CHECK(same.p_equivalent == 0.0);
  CHECK(same.p_better == 0.5);
  CHECK(same.low == 0.0);
  CHECK(same.high == 0.0);
  const PairedTest apart = test_of({2.0, 2.0, 2.0, 2.0, 2.0}, {1.0, 1.0, 1.0, 1.0, 1.0});
  CHECK(apart.p_equivalent == 1.0);
  CHECK(apart.p_different == 0.0);
  CHECK(std::isnan(apart.correlation));
  CHECK(std::isnan(test_of({1.0}, {2.0}).low));
  CHECK(std::isnan(test_of({}, {}).delta));
}

TEST_CASE("the detectable margin is detected in 80 of 100 comparisons", "[statistics]") {
  // Differences of normal noise, made by a fixed linear congruential generator and the sum of twelve
  // uniforms.
  std::uint64_t state = 1;
  const auto normal = [&state] {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      sum += static_cast<double>(state >> 11) * 0x1p-53;
    }
    return sum;
  };
  constexpr int kTrials = 4000;
  constexpr std::size_t kPairs = 12;
  const double df = kPairs - 1.0;
  const double margin = (student_t_quantile(0.95, df) + student_t_quantile(0.9, df)) / std::sqrt(kPairs);
  int detected = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> arm(kPairs);
    for (double& value : arm) value = normal();
    detected += test_of(arm, std::vector<double>(kPairs, 0.0), margin).p_equivalent < kAlpha;
  }
  CHECK(detected > 0.75 * kTrials);
  CHECK(detected < 0.87 * kTrials);
}

TEST_CASE("verdicts", "[statistics]") {
  const auto verdict = [](const std::vector<double>& arm, std::size_t diverged = 0,
                          std::size_t baseline_diverged = 0) {
    const ArmOutcome outcome{test_of(arm, {kBase.begin(), kBase.begin() + static_cast<long>(arm.size())}),
                             diverged, baseline_diverged};
    return verdicts(std::span(&outcome, 1)).front();
  };
  CHECK(verdict(shifted(0.0, 0.1)).text() == "equivalent");
  CHECK(verdict(shifted(0.2, 0.02)).text() == "equivalent, better");
  CHECK(verdict(shifted(-0.2, 0.02)).text() == "equivalent, worse");
  CHECK(verdict(shifted(-2.0, 0.1)).text() == "not equivalent, worse");
  CHECK(verdict(shifted(2.0, 0.1)).text() == "not equivalent, better");
  CHECK(verdict(shifted(0.0, 2.0)).text() == "inconclusive");
  CHECK(verdict({90.0, 91.0, 92.0, 93.0}).text() == "inconclusive");
  CHECK(verdict({90.0, 91.0, 92.0, 93.0}).reason == "4 seeds are fewer than 5");
  CHECK(verdict({90.0, 91.0, 92.0, 93.0}, 1).text() == "not equivalent, worse");
  CHECK(verdict(shifted(0.0, 0.1), 0, 1).text() == "inconclusive");

  SECTION("with many arms, each needs more") {
    const ArmOutcome close{test_of(shifted(0.0, 0.39), kBase), 0, 0};
    CHECK(close.test.p_equivalent < kAlpha);
    CHECK(verdicts(std::vector<ArmOutcome>{close})[0].text() == "equivalent");
    CHECK(verdicts(std::vector<ArmOutcome>(4, close))[3].text() == "inconclusive");
  }
}
