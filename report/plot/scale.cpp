#include "report/plot/scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::plot {

std::vector<double> ticks(double low, double high, int count) {
  ensure(high > low && count > 0, "plot", "ticks from {} to {}", low, high);
  const double rough = (high - low) / count, power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10.0 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> values;
  for (double i = std::ceil(low / step); i * step <= high * (1.0 + 1e-12) + 1e-300; i += 1.0)
    values.push_back(i * step + 0.0);  // no negative zero
  return values;
}

std::string number(double value) {
  return value != 0.0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e6) ? fmt::format("{:.0e}", value)
                                                                            : fmt::format("{:g}", value);
}

namespace {

// "985k", "2e24", "5e-4"
std::string short_number(double value) {
  const double size = std::abs(value);
  if (value != 0.0 && (size < 1e-3 || size >= 1e12)) {
    const double exponent = std::floor(std::log10(size) + 1e-9);
    return fmt::format("{:.3g}e{:g}", value / std::pow(10.0, exponent), exponent);
  }
  for (const auto& [unit, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (size >= unit) return fmt::format("{:g}{}", value / unit, name);
  return number(value);
}

}  // namespace

void Range::take(double value, const Axis& axis) {
  if (!std::isfinite(value) || ((axis.log2 || axis.log10) && value <= 0.0)) return;
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

Scale::Scale(const Axis& axis, double low, double high, double from, double to)
    : log2_(axis.log2),
      log10_(axis.log10),
      whole_(axis.whole),
      short_(axis.short_labels),
      low_(axis.low.value_or(low)),
      high_(axis.high.value_or(high)),
      from_(from),
      to_(to) {
  low_ = exponent(low_);
  high_ = exponent(high_);
  if (!(high_ > low_)) {
    const double room = log10_ ? 0.5 : low_ == 0.0 ? 1.0 : 0.5 * std::abs(low_);
    low_ -= room;
    high_ += room;
  } else if (!log2_) {
    const double room = 0.04 * (high_ - low_);
    if (!axis.low && (log10_ || low != 0.0)) low_ -= room;
    if (!axis.high) high_ += room;
  }
}

double Scale::exponent(double value) const {
  return log2_ ? std::log2(value) : log10_ ? std::log10(value) : value;
}

bool Scale::shows(double value) const { return std::isfinite(value) && (!(log2_ || log10_) || value > 0.0); }

double Scale::operator()(double value) const {
  return from_ + (std::clamp(exponent(value), low_, high_) - low_) / (high_ - low_) * (to_ - from_);
}

std::vector<std::pair<std::string, double>> Scale::labels(int count) const {
  std::vector<std::pair<std::string, double>> result;
  // Powers of ten give too few labels for a range of about one power.
  if (log10_ && high_ - low_ < 1.3) {
    for (const double tick : ticks(std::pow(10.0, low_), std::pow(10.0, high_), count))
      result.emplace_back(short_ ? short_number(tick) : number(tick), tick);
    return result;
  }
  for (const double tick : ticks(low_, high_, count)) {
    if ((log2_ || log10_ || whole_) && tick != std::floor(tick)) continue;
    if (log2_) {
      result.emplace_back(tick >= 0.0 && tick <= 10.0 ? number(std::exp2(tick)) : fmt::format("2^{:g}", tick),
                          std::exp2(tick));
    } else {
      const double value = log10_ ? std::pow(10.0, tick) : tick;
      result.emplace_back(log10_ && std::abs(tick) > 3.0 ? fmt::format("10^{:g}", tick)
                          : short_                       ? short_number(value)
                                                         : number(value),
                          value);
    }
  }
  return result;
}

}  // namespace tandem::plot
