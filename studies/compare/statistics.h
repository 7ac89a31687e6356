// Statistics of a comparison that is paired by seed, independent of training.
//
// Sources: two one-sided tests after Schuirmann (J. Pharmacokinet. Biopharm. 15, 1987); Holm (Scand. J.
// Statist. 6, 1979).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem::compare {

double mean(std::span<const double> values);
// With denominator n − 1; NaN for fewer than two values.
double standard_deviation(std::span<const double> values);
// Pearson's coefficient; NaN if one side is constant. The spans have equal lengths.
double correlation(std::span<const double> a, std::span<const double> b);
// Linear interpolation between order statistics; `values` in any order, not empty.
double quantile(std::vector<double> values, double q);

// Student's t distribution: P(T > t), accurate in the tail and NaN for NaN; and the t with P(T ≤ t) = p,
// 0 < p < 1.
double student_t_upper_tail(double t, double df);
double student_t_quantile(double p, double df);

inline constexpr double kAlpha = 0.05;          // of every one-sided test
inline constexpr std::size_t kFewestPairs = 5;  // with fewer, every verdict is `inconclusive`

// Test of the differences d = arm − baseline of one arm against a margin. Positive differences are better if
// `greater_is_better`.
struct PairedTest {
  std::size_t pairs = 0;
  double delta = 0.0, sd = 0.0;          // mean and standard deviation of the differences; NaN without data
  double low = 0.0, high = 0.0;          // 90 % t-interval of the mean difference
  double p_equivalent = 1.0;             // the larger p of the two one-sided tests against ± margin
  double p_different = 1.0;              // of a mean difference outside ± margin
  double p_better = 1.0, p_worse = 1.0;  // one-sided, against zero
  double correlation = 0.0;              // of the pairs
  // The smallest margin for which both tests succeed with probability 0.8 if the arms are equal: (t(0.95) +
  // t(0.9)) · sd / √n, the usual approximation of the power by a shifted central t.
  double detectable = 0.0;
};

// `arm` and `baseline` have one value per seed; margin > 0. Constant differences count as known exactly.
PairedTest paired_test(std::span<const double> arm, std::span<const double> baseline, double margin,
                       bool greater_is_better);

// p-values adjusted for multiple tests, in the given order.
std::vector<double> holm(std::span<const double> p);

enum class Equivalence : std::uint8_t { equivalent, not_equivalent, inconclusive };

struct Verdict {
  Equivalence equivalence = Equivalence::inconclusive;
  bool better = false, worse = false;  // in addition
  std::string reason;                  // why it deviates from the intervals; usually empty

  // "equivalent", "equivalent, better", "not equivalent", "not equivalent, worse", "inconclusive"
  std::string text() const;
};

struct ArmOutcome {
  PairedTest test;
  std::size_t diverged = 0;           // seeds of this arm
  std::size_t baseline_diverged = 0;  // seeds of the baseline
};

// One verdict for each arm, with Holm's correction across the arms. It is inconclusive with fewer than
// kFewestPairs pairs or a diverged baseline, and not equivalent for an arm that diverged although the
// baseline did not.
std::vector<Verdict> verdicts(std::span<const ArmOutcome> arms);

}  // namespace tandem::compare
