// Curves of a run, downsampled for charts.
#pragma once

#include <cstddef>
#include <vector>

namespace tandem::report {

// Points in increasing order of x; a non-finite y is a gap.
struct Curve {
  std::vector<double> x, y;
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

// At most `most` points (at least 6): the minimum and maximum of each of equal parts, so that spikes stay,
// and a gap if the part has one. A short curve is unchanged.
Curve downsampled(const Curve& curve, std::size_t most);

// Window of smoothed() in points: a fiftieth of the points, odd; 1 for fewer than 80 points.
std::size_t smoothing_window(std::size_t points);
// The mean of the finite values in a window around each point, at `most` points or fewer. A point without
// finite values in its window is a gap.
Curve smoothed(const Curve& curve, std::size_t window, std::size_t most);

// Median of the finite values; NaN without any.
double median(std::vector<double> values);

}  // namespace tandem::report
