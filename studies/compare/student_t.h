// Student's t distribution, from Boost.Math.
#pragma once

namespace tandem::compare {

// P(T > t), accurate in the tail; NaN for NaN.
double student_t_upper_tail(double t, double df);
double student_t_cdf(double t, double df);
// The t with P(T ≤ t) = p, 0 < p < 1.
double student_t_quantile(double p, double df);

}  // namespace tandem::compare
