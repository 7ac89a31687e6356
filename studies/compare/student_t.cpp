#include "studies/compare/student_t.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace tandem::compare {

namespace {

using Distribution = boost::math::students_t_distribution<double>;

}  // namespace

double student_t_upper_tail(double t, double df) {
  if (std::isnan(t)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(t)) return t > 0 ? 0.0 : 1.0;
  return boost::math::cdf(boost::math::complement(Distribution(df), t));
}

double student_t_cdf(double t, double df) { return student_t_upper_tail(-t, df); }

double student_t_quantile(double p, double df) {
  ensure(p > 0.0 && p < 1.0 && df > 0.0, "student_t_quantile", "p {}, {} degrees of freedom", p, df);
  return boost::math::quantile(Distribution(df), p);
}

}  // namespace tandem::compare
