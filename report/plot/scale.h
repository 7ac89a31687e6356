// Scale of an axis: maps values to positions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::plot {

struct Axis {
  std::string title;
  bool log2 = false;                // other than positive values are left out
  bool log10 = false;               // the same
  bool whole = false;               // labels only at whole numbers
  bool short_labels = false;        // 20k for 20000
  std::optional<double> low, high;  // absent: from the data
};

// About `count` values for labels from low to high: multiples of 1, 2 or 5 times a power of ten.
std::vector<double> ticks(double low, double high, int count);

// A number as an axis label.
std::string number(double value);

// Range of values on an axis.
struct Range {
  double low = 0.0, high = 0.0;
  bool empty = true;
  void take(double value, const Axis& axis);
};

class Scale {
 public:
  // Maps values from low to high, unless the axis sets them, to positions between `from` and `to`.
  Scale(const Axis& axis, double low, double high, double from, double to);

  bool shows(double value) const;
  // Values beyond the ends are clamped.
  double operator()(double value) const;
  // About `count` labels with their values.
  std::vector<std::pair<std::string, double>> labels(int count) const;

 private:
  double exponent(double value) const;

  bool log2_, log10_, whole_, short_;
  double low_, high_, from_, to_;
};

}  // namespace tandem::plot
