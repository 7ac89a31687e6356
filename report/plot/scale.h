// The scale of an axis: positions on a page of its values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::plot {

struct Axis {
  std::string title;
  bool log2 = false;                // positive values only; others are left out
  bool log10 = false;               // the same
  bool whole = false;               // labels at whole numbers only
  bool short_labels = false;        // 20k for 20000
  std::optional<double> low, high;  // absent: from the data
};

// Values at which an axis from low to high is labelled: 1, 2 or 5 times a power of ten, about `count` of
// them.
std::vector<double> ticks(double low, double high, int count);

// A number as an axis shows it.
std::string number(double value);

// The values that an axis has to show.
struct Range {
  double low = 0.0, high = 0.0;
  bool empty = true;
  void take(double value, const Axis& axis);
};

class Scale {
 public:
  // Values from low to high, where the axis does not say otherwise, lie between the positions `from` and
  // `to`.
  Scale(const Axis& axis, double low, double high, double from, double to);

  bool shows(double value) const;
  // Values beyond the ends lie on them.
  double operator()(double value) const;
  // Labels and the values they stand at, about `count`.
  std::vector<std::pair<std::string, double>> labels(int count) const;

 private:
  double exponent(double value) const;

  bool log2_, log10_, whole_, short_;
  double low_, high_, from_, to_;
};

}  // namespace tandem::plot
