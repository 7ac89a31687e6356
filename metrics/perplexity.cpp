#include "metrics/perplexity.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"

namespace tandem::metrics {

namespace {

// nll/units; NaN for 0 units, where a non-zero sum would give infinity.
double per_unit(double nll, std::int64_t units, const char* what) {
  require(units >= 0, "perplexity", "the number of {} must be at least 0, got {}", what, units);
  return units == 0 ? std::numeric_limits<double>::quiet_NaN() : nll / static_cast<double>(units);
}

}  // namespace

void Perplexity::add(double nll, std::int64_t targets) {
  require(targets >= 0, "perplexity", "the number of targets must be at least 0, got {}", targets);
  require(targets > 0 || nll == 0.0, "perplexity",
          "a sum over no targets must be 0, got {}: pass sums, not means", nll);
  nll_ += nll;
  targets_ += targets;
}

void Perplexity::merge(const Perplexity& other) {
  nll_ += other.nll_;
  targets_ += other.targets_;
}

double Perplexity::value_per(std::int64_t units) const { return std::exp(per_unit(nll_, units, "units")); }

double Perplexity::bits_per_character(std::int64_t characters) const {
  return per_unit(nll_, characters, "characters") / std::numbers::ln2;
}

}  // namespace tandem::metrics
