// Charts as SVG, drawn without other libraries. The text of a chart depends only on its numbers, so committed
// plots change only with their data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/plot/canvas.h"
#include "report/plot/scale.h"

namespace tandem::plot {

struct Line {
  std::string name;
  std::vector<double> x, y;             // of equal length; a non-finite value interrupts the line
  bool steps = false;                   // constant up to the next point
  bool faint = false;                   // behind another line of the same colour: unsmoothed values
  bool dots = false;                    // a dot at every point
  std::optional<std::size_t> colour{};  // absent: the index of the line
};

struct Mark {
  double x = 0.0;                       // a vertical tick at the bottom: a skipped step
  std::optional<std::size_t> colour{};  // absent: the alarm colour
};

struct LineChart {
  std::string title;
  Axis x, y;
  std::vector<Line> lines;
  std::vector<Mark> marks{};
  std::string marks_name{};  // in the legend
  int hovers =
      0;  // number of vertical strips that show the values of lines under the pointer, except faint ones
};

// Shares by exponent, and a bar for zeros at the left.
struct HistogramSeries {
  std::string name;
  int first = 0;               // exponent of shares[0]
  std::vector<double> shares;  // of all values
  double zero = 0.0;           // share of zeros
};

struct Limit {
  std::string name;
  double exponent = 0.0;  // upper limit of values
  bool shaded = false;    // shades values below it
};

struct HistogramChart {
  std::string title;
  std::string x_title = "log2 of the magnitude", y_title = "share of all values";
  std::vector<HistogramSeries> series;
  std::vector<Limit> limits{};
};

// A file with one chart, or with several below each other. For a page (Look::page), an element without title
// and legend.
std::string to_svg(const LineChart& chart, const Look& look = {});
std::string to_svg(const HistogramChart& chart, const Look& look = {});
std::string to_svg(const std::vector<HistogramChart>& charts);

}  // namespace tandem::plot
