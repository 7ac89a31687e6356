#include "report/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace tandem::report {

namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Curve downsampled(const Curve& curve, std::size_t most) {
  const std::size_t points = curve.x.size();
  require(curve.y.size() == points, "downsampled", "{} x and {} y", points, curve.y.size());
  require(most >= 6, "downsampled", "to {} points; at least 6", most);
  if (points <= most) return curve;
  const std::size_t parts = most / 3;
  Curve result;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = part * points / parts, last = (part + 1) * points / parts;
    std::size_t least = last, greatest = last, gap = last;
    for (std::size_t i = first; i < last; ++i) {
      if (!std::isfinite(curve.y[i])) {
        gap = i;
        continue;
      }
      if (least == last || curve.y[i] < curve.y[least]) least = i;
      if (greatest == last || curve.y[i] >= curve.y[greatest]) greatest = i;
    }
    std::vector<std::size_t> kept{least, greatest, gap};
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const std::size_t i : kept)
      if (i != last) result.add(curve.x[i], std::isfinite(curve.y[i]) ? curve.y[i] : kGap);
  }
  return result;
}

std::size_t smoothing_window(std::size_t points) { return points < 80 ? 1 : (points / 50) | 1; }

Curve smoothed(const Curve& curve, std::size_t window, std::size_t most) {
  const std::size_t points = curve.x.size();
  std::vector<double> sums(points + 1, 0.0);
  std::vector<std::size_t> counts(points + 1, 0);
  for (std::size_t i = 0; i < points; ++i) {
    const bool finite = std::isfinite(curve.y[i]);
    sums[i + 1] = sums[i] + (finite ? curve.y[i] : 0.0);
    counts[i + 1] = counts[i] + (finite ? 1 : 0);
  }
  Curve result;
  const std::size_t shown = std::min(points, most);
  for (std::size_t k = 0; k < shown; ++k) {
    const std::size_t i = shown == 1 ? 0 : k * (points - 1) / (shown - 1);
    const std::size_t first = i - std::min(i, window / 2), last = std::min(points, i + window / 2 + 1);
    const std::size_t count = counts[last] - counts[first];
    result.add(curve.x[i], count > 0 ? (sums[last] - sums[first]) / static_cast<double>(count) : kGap);
  }
  return result;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return kGap;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tandem::report
