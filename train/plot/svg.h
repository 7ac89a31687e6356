// Charts as SVG: what the program draws without a network, a browser or a library. The text of a chart
// depends on its numbers only, so that committed plots change when their data does.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tandem::plot {

struct Axis {
  std::string title;
  bool log2 = false;                // positive values only; others are left out
  std::optional<double> low, high;  // absent: from the data
};

struct Line {
  std::string name;
  std::vector<double> x, y;  // of equal length; a value that is not finite breaks the line
  bool steps = false;        // constant up to the next point
};

struct Mark {
  double x = 0.0;  // a vertical tick at the bottom: a skipped step
};

struct LineChart {
  std::string title;
  Axis x, y;
  std::vector<Line> lines;
  std::vector<Mark> marks{};
  std::string marks_name{};  // in the legend
};

// Shares over whole exponents, with a bar for zero at the left.
struct HistogramSeries {
  std::string name;
  int first = 0;               // exponent of shares[0]
  std::vector<double> shares;  // of all values
  double zero = 0.0;           // share of zeros
};

struct Limit {
  std::string name;
  double exponent = 0.0;  // values left of it…
  bool shaded = false;    // …are shaded up to the left border
};

struct HistogramChart {
  std::string title;
  std::string x_title = "log2 of the magnitude", y_title = "share of all values";
  std::vector<HistogramSeries> series;
  std::vector<Limit> limits{};
};

// One chart a file; several charts one below the other.
std::string to_svg(const LineChart& chart);
std::string to_svg(const HistogramChart& chart);
std::string to_svg(const std::vector<HistogramChart>& charts);

// Values at which an axis from low to high is labelled: 1, 2 or 5 times a power of ten, about `count` of
// them.
std::vector<double> ticks(double low, double high, int count);

}  // namespace tandem::plot
