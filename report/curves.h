// Series of a run, brought to as many points as a chart can show.
#pragma once

#include <cstddef>
#include <vector>

namespace tandem::report {

// Points in increasing order of x; a y that is not finite is a gap.
struct Curve {
  std::vector<double> x, y;
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

// At most `most` points (at least 6): in each of equal parts of the points the least and the greatest value,
// so that spikes stay, and a gap where the part has one. A curve that is short enough is returned as it is.
Curve downsampled(const Curve& curve, std::size_t most);

// How many points smoothed() takes the mean of: a fiftieth of them, odd; 1 for curves of less than 80 points.
std::size_t smoothing_window(std::size_t points);
// The mean of the finite values in a window around each point, at most `most` points of it. A point with no
// finite value in its window is a gap.
Curve smoothed(const Curve& curve, std::size_t window, std::size_t most);

// Of the finite values; NaN without any.
double median(std::vector<double> values);

}  // namespace tandem::report
