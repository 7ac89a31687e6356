#include "report/plot/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::plot {

namespace {

std::string frame(const Canvas& canvas, const std::string& x_title, const std::string& y_title) {
  const Look& look = canvas.look;
  const double bottom = look.plot_bottom(), right = look.plot_right();
  return canvas.text(0.5 * (look.left + right), look.height - (look.page ? 4.0 : 12.0), x_title,
                     {.anchor = "middle"}) +
         (look.page ? ""
                    : canvas.text(16.0, 0.5 * (look.top + bottom), y_title,
                                  {.anchor = "middle", .vertical = true})) +
         canvas.line(look.left, bottom, right, bottom, Ink::axis) +
         (look.page ? "" : canvas.line(look.left, look.top, look.left, bottom, Ink::axis));
}

std::string grid(const Canvas& canvas, const Scale& y) {
  const Look& look = canvas.look;
  std::string result;
  for (const auto& [label, value] : y.labels(look.y_labels)) {
    result += canvas.line(look.left, y(value), look.plot_right(), y(value), Ink::grid) +
              canvas.text(look.left - 6.0, y(value) + 4.0, label, {.anchor = "end", .size = 11});
  }
  return result;
}

struct LegendEntry {
  std::string name;
  std::optional<std::size_t> series;  // absent: the alarm colour
};

// A chart with title and legend above the body. The look has room for one row of the legend; more rows extend
// the chart.
struct Picture {
  std::string svg;
  double height = 0.0;
};

Picture with_head(const Canvas& canvas, const std::string& title, const std::vector<LegendEntry>& entries,
                  const std::string& body) {
  const Look& look = canvas.look;
  if (look.page) return {body, look.height};
  constexpr double kRow = 16.0;
  std::string head = canvas.text(look.left, 22.0, title, {.size = 15, .bold = true});
  double x = look.left, y = 34.0;
  for (const LegendEntry& entry : entries) {
    if (entry.name.empty()) continue;
    const double width = 40.0 + 6.3 * static_cast<double>(entry.name.size());
    if (x > look.left && x + width > look.width) {
      x = look.left;
      y += kRow;
    }
    constexpr const char* kWide = " stroke-width=\"3\"";
    head += (entry.series ? canvas.series_line(x, y, x + 18.0, y, *entry.series, kWide)
                          : canvas.line(x, y, x + 18.0, y, Ink::alarm, kWide)) +
            canvas.text(x + 23.0, y + 4.0, entry.name, {.size = 11});
    x += width;
  }
  const double extra = y - 34.0;
  return {head + fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", extra, body),
          look.height + extra};
}

// A line, with dots if requested, and on a page also at isolated points.
std::string drawn(const Canvas& canvas, const Line& series, std::size_t colour, const Scale& x,
                  const Scale& y) {
  const auto shows = [&](std::size_t i) {
    return i < series.x.size() && x.shows(series.x[i]) && y.shows(series.y[i]);
  };
  std::string points, dots;
  double last = 0.0;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!shows(i)) continue;
    const bool drawing = i > 0 && shows(i - 1);
    const double px = x(series.x[i]), py = y(series.y[i]);
    if (drawing && series.steps) points += fmt::format("L{:.1f} {:.1f}", px, last);
    points += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", px, py);
    if (series.dots || (canvas.look.page && !drawing && !shows(i + 1))) dots += canvas.dot(px, py, colour);
    last = py;
  }
  return canvas.path(points, colour, series.faint) + dots;
}

std::string ticks_of(const Canvas& canvas, const std::vector<Mark>& marks, const Scale& x) {
  constexpr const char* kWide = " stroke-width=\"1.5\"";
  const double bottom = canvas.look.plot_bottom();
  std::string result;
  for (const Mark& mark : marks)
    result += mark.colour
                  ? canvas.series_line(x(mark.x), bottom - 10.0, x(mark.x), bottom, *mark.colour, kWide)
                  : canvas.line(x(mark.x), bottom - 10.0, x(mark.x), bottom, Ink::alarm, kWide);
  return result;
}

// The value at the nearest point to x within `reach`; absent if there is none.
std::optional<double> value_near(const Line& line, double x, double reach) {
  const auto after = std::lower_bound(line.x.begin(), line.x.end(), x);
  std::optional<double> found;
  double nearest = reach;
  for (auto at = after == line.x.begin() ? after : after - 1; at != line.x.end() && *at - x <= reach; ++at) {
    const double value = line.y[static_cast<std::size_t>(at - line.x.begin())];
    if (!std::isfinite(value) || std::abs(*at - x) > nearest) continue;
    nearest = std::abs(*at - x);
    found = value;
  }
  return found;
}

std::string hovers(const Canvas& canvas, const LineChart& chart, const Range& x_range, const Scale& x) {
  if (chart.hovers == 0 || x_range.empty) return "";
  const Look& look = canvas.look;
  const double width = (look.plot_right() - look.left) / chart.hovers;
  const double reach = std::max(0.5, (x_range.high - x_range.low) / chart.hovers);
  std::string result;
  double until = look.left;
  for (int i = 0; i < chart.hovers && until < look.plot_right(); ++i) {
    double at = x_range.low + (x_range.high - x_range.low) * (i + 0.5) / chart.hovers;
    if (chart.x.whole) at = std::round(at);
    std::string text = fmt::format("{} {:g}", chart.x.title, at);
    bool any = false;
    for (const Line& line : chart.lines) {
      if (line.faint) continue;
      const auto value = value_near(line, at, reach);
      if (!value) continue;
      text += fmt::format("\n{}: {:.4g}", line.name, *value);
      any = true;
    }
    const double right = std::min(std::max(x(at) + 0.5 * width, until + 1.0), look.plot_right());
    if (any) result += canvas.hover(until, look.top, right - until, look.plot_bottom() - look.top, text);
    until = right;
  }
  return result;
}

// Range of exponents in a histogram, including its limits.
struct Exponents {
  int low = 0, high = 0;
  double greatest = 0.0;  // share
};

Exponents exponents_of(const HistogramChart& chart) {
  constexpr int kNone = 10000;
  int low = kNone, high = -kNone;
  double greatest = 0.0;
  for (const HistogramSeries& series : chart.series) {
    greatest = std::max(greatest, series.zero);
    for (std::size_t i = 0; i < series.shares.size(); ++i) {
      greatest = std::max(greatest, series.shares[i]);
      if (series.shares[i] <= 0.0) continue;
      low = std::min(low, series.first + static_cast<int>(i));
      high = std::max(high, series.first + static_cast<int>(i));
    }
  }
  if (low == kNone) low = high = 0;
  for (const Limit& limit : chart.limits) {
    low = std::min(low, static_cast<int>(std::floor(limit.exponent)) - 1);
    high = std::max(high, static_cast<int>(std::ceil(limit.exponent)) + 1);
  }
  return {low, high, greatest};
}

Picture histogram(const Canvas& canvas, const HistogramChart& chart) {
  require(!chart.series.empty(), "plot", "a histogram needs a series");
  const Look& look = canvas.look;
  const auto [low, high, greatest] = exponents_of(chart);
  const double bottom = look.plot_bottom(), right = look.plot_right();
  const double column = (right - look.left) / static_cast<double>(high - low + 4);
  const auto position = [&, first = low](double exponent) {
    return look.left + column * (3.0 + exponent - static_cast<double>(first));
  };
  const Scale y({.low = 0.0}, 0.0, greatest, bottom, look.top);
  std::string body;
  for (const Limit& limit : chart.limits)
    if (limit.shaded)
      body += canvas.shade(look.left + 2.2 * column, look.top,
                           position(limit.exponent) - look.left - 2.2 * column, bottom - look.top);
  body += grid(canvas, y) + frame(canvas, chart.x_title, chart.y_title);
  const double bar = 0.86 * column / static_cast<double>(chart.series.size());
  std::vector<LegendEntry> names;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const HistogramSeries& series = chart.series[s];
    names.push_back({series.name, s});
    const auto draw = [&](double x, double share) {
      if (share <= 0.0) return;
      body +=
          canvas.bar(x + 0.07 * column + bar * static_cast<double>(s), y(share), bar, bottom - y(share), s);
    };
    draw(look.left + 0.6 * column, series.zero);
    for (std::size_t i = 0; i < series.shares.size(); ++i)
      draw(position(series.first + static_cast<int>(i)), series.shares[i]);
  }
  body += canvas.text(look.left + 1.1 * column, bottom + 16.0, "0", {.anchor = "middle", .size = 11});
  const int every = look.page && high - low > 50 ? 10 : 5;
  for (int e = low; e <= high; ++e)
    if (e % every == 0)
      body += canvas.text(position(e), bottom + 16.0, fmt::format("{}", e), {.anchor = "middle", .size = 11});
  double height = look.top + 12.0;
  for (const Limit& limit : chart.limits) {
    body += canvas.line(position(limit.exponent), look.top, position(limit.exponent), bottom, Ink::alarm,
                        " stroke-dasharray=\"4 3\"") +
            canvas.text(position(limit.exponent) + 4.0, height, limit.name, {.size = 11});
    height += look.page ? 18.0 : 14.0;
  }
  return with_head(canvas, chart.title, names, body);
}

}  // namespace

std::string to_svg(const LineChart& chart, const Look& look) {
  const Canvas canvas(look);
  Range x_range, y_range;
  for (const Line& series : chart.lines) {
    require(series.x.size() == series.y.size(), "plot", "line \"{}\" has {} x and {} y", series.name,
            series.x.size(), series.y.size());
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      x_range.take(series.x[i], chart.x);
      y_range.take(series.y[i], chart.y);
    }
  }
  const double bottom = look.plot_bottom(), right = look.plot_right();
  Axis x_axis = chart.x;
  if (!x_axis.low) x_axis.low = x_range.low;
  if (!x_axis.high) x_axis.high = x_range.high;
  if (x_range.empty) x_axis.log2 = x_axis.log10 = false;
  Axis y_axis = chart.y;
  if (y_range.empty) y_axis.log2 = y_axis.log10 = false;
  const Scale x(x_axis, x_range.low, x_range.high, look.left, right);
  const Scale y(y_axis, y_range.low, y_range.high, bottom, look.top);
  std::string body = grid(canvas, y) + frame(canvas, chart.x.title, chart.y.title);
  for (const auto& [label, value] : x.labels(look.x_labels))
    body += canvas.text(x(value), bottom + 16.0, label, {.anchor = "middle", .size = 11});
  // On a page, ticks are drawn above the lines, since the scale falls at a skipped step.
  if (!look.page) body += ticks_of(canvas, chart.marks, x);
  std::vector<LegendEntry> names;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const std::size_t colour = chart.lines[i].colour.value_or(i);
    body += drawn(canvas, chart.lines[i], colour, x, y);
    names.push_back({chart.lines[i].name, colour});
  }
  if (look.page) body += ticks_of(canvas, chart.marks, x);
  if (!chart.marks.empty()) names.push_back({chart.marks_name, {}});
  const Picture picture = with_head(canvas, chart.title, names, body + hovers(canvas, chart, x_range, x));
  return canvas.document(chart.title, picture.svg, picture.height);
}

std::string to_svg(const HistogramChart& chart, const Look& look) {
  const Canvas canvas(look);
  const Picture picture = histogram(canvas, chart);
  return canvas.document(chart.title, picture.svg, picture.height);
}

std::string to_svg(const std::vector<HistogramChart>& charts) {
  const Canvas canvas{Look{}};
  std::string body;
  double height = 0.0;
  for (const HistogramChart& chart : charts) {
    const Picture picture = histogram(canvas, chart);
    body += fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", height, picture.svg);
    height += picture.height;
  }
  return canvas.document("", body, std::max(height, 1.0));
}

}  // namespace tandem::plot
