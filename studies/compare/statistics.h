// The statistics of a comparison paired by seed. Nothing here knows about training.
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
// With n − 1 in the denominator; NaN for fewer than two values.
double standard_deviation(std::span<const double> values);
// Pearson's; NaN when one side does not vary. The spans have one length.
double correlation(std::span<const double> a, std::span<const double> b);
// Linear interpolation between order statistics; `values` in any order, at least one.
double quantile(std::vector<double> values, double q);

inline constexpr double kAlpha = 0.05;          // of every one-sided test
inline constexpr std::size_t kFewestPairs = 5;  // below, every verdict is `inconclusive`

// What the differences d = arm − baseline of one arm say about a margin. Positive differences are better when
// `greater_is_better`.
struct PairedTest {
  std::size_t pairs = 0;
  double delta = 0.0, sd = 0.0;          // mean and standard deviation of the differences; NaN without data
  double low = 0.0, high = 0.0;          // 90 % t-interval of the mean difference
  double p_equivalent = 1.0;             // the larger p of the two one-sided tests against ± margin
  double p_different = 1.0;              // of the mean difference lying outside ± margin
  double p_better = 1.0, p_worse = 1.0;  // one-sided, against zero
  double correlation = 0.0;              // of the pairs
  // The smallest margin for which the two tests succeed with probability 0.8 when the arms truly agree:
  // (t(0.95) + t(0.9)) · sd / √n, the usual approximation of the power by a shifted central t.
  double detectable = 0.0;
};

// `arm` and `baseline` have one length, one value a seed; margin > 0. Differences that do not vary are taken
// as known exactly.
PairedTest paired_test(std::span<const double> arm, std::span<const double> baseline, double margin,
                       bool greater_is_better);

// p-values adjusted for having made all of the tests; in the order given.
std::vector<double> holm(std::span<const double> p);

enum class Equivalence : std::uint8_t { equivalent, not_equivalent, inconclusive };

struct Verdict {
  Equivalence equivalence = Equivalence::inconclusive;
  bool better = false, worse = false;  // said beside the above
  std::string reason;                  // why it is not what the intervals say; usually empty

  // "equivalent", "equivalent, better", "not equivalent", "not equivalent, worse", "inconclusive"
  std::string text() const;
};

struct ArmOutcome {
  PairedTest test;
  std::size_t diverged = 0;           // seeds of this arm
  std::size_t baseline_diverged = 0;  // seeds of the baseline
};

// One verdict for each arm, with Holm's correction across the arms. Fewer than kFewestPairs pairs, or a
// baseline that diverged, is inconclusive; an arm that diverged where the baseline did not is not equivalent.
std::vector<Verdict> verdicts(std::span<const ArmOutcome> arms);

}  // namespace tandem::compare
