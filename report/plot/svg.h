// Charts as SVG: what the program draws without a network, a browser or a library. The text of a chart
// depends on its numbers only, so that committed plots change when their data does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/plot/canvas.h"
#include "report/plot/scale.h"

namespace tandem::plot {

struct Line {
  std::string name;
  std::vector<double> x, y;             // of equal length; a value that is not finite breaks the line
  bool steps = false;                   // constant up to the next point
  bool faint = false;                   // behind another line of the same colour: unsmoothed values
  bool dots = false;                    // a dot at every point
  std::optional<std::size_t> colour{};  // absent: the place among the lines
};

struct Mark {
  double x = 0.0;                       // a vertical tick at the bottom: a skipped step
  std::optional<std::size_t> colour{};  // absent: that of alarms
};

struct LineChart {
  std::string title;
  Axis x, y;
  std::vector<Line> lines;
  std::vector<Mark> marks{};
  std::string marks_name{};  // in the legend
  int hovers = 0;  // upright strips that tell the values of the lines, faint ones aside, when pointed at
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

// One chart a file; several charts one below the other. For a page (Look::page) an element without title and
// legend.
std::string to_svg(const LineChart& chart, const Look& look = {});
std::string to_svg(const HistogramChart& chart, const Look& look = {});
std::string to_svg(const std::vector<HistogramChart>& charts);

}  // namespace tandem::plot
