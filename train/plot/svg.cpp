#include "train/plot/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::plot {

namespace {

constexpr double kWidth = 720.0, kHeight = 400.0;
constexpr double kLeft = 70.0, kRight = 20.0, kTop = 44.0, kBottom = 52.0;
// Distinguishable with any colour vision (Okabe and Ito 2008).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000"};

const char* colour(std::size_t i) { return kColours[i % std::size(kColours)]; }

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

struct TextStyle {
  const char* anchor = "start";
  int size = 12;
  bool bold = false, vertical = false;
};

std::string text(double x, double y, const std::string& content, TextStyle style = {}) {
  const std::string turn =
      style.vertical ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y) : "";
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\"{}{}>{}</text>\n", x,
                     y, style.anchor, style.size, style.bold ? " font-weight=\"bold\"" : "", turn,
                     escaped(content));
}

std::string line(double x1, double y1, double x2, double y2, const char* stroke, const char* more = "") {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"{}/>\n", x1,
                     y1, x2, y2, stroke, more);
}

std::string number(double value) {
  return value != 0.0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e6) ? fmt::format("{:.0e}", value)
                                                                            : fmt::format("{:g}", value);
}

std::string document(const std::string& body, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" fill=\"#222\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "fill=\"#fff\"/>\n{2}</svg>\n",
      kWidth, height, body);
}

// From the values of an axis to positions on the page.
class Scale {
 public:
  Scale(const Axis& axis, double low, double high, double from, double to)
      : log_(axis.log2), low_(axis.low.value_or(low)), high_(axis.high.value_or(high)), from_(from), to_(to) {
    if (log_) {
      low_ = std::log2(low_);
      high_ = std::log2(high_);
    }
    if (!(high_ > low_)) {
      const double room = low_ == 0.0 ? 1.0 : 0.5 * std::abs(low_);
      low_ -= room;
      high_ += room;
    } else if (!log_) {
      const double room = 0.04 * (high_ - low_);
      if (!axis.low && low != 0.0) low_ -= room;
      if (!axis.high) high_ += room;
    }
  }

  bool shows(double value) const { return std::isfinite(value) && (!log_ || value > 0.0); }
  double operator()(double value) const {
    const double v = log_ ? std::log2(value) : value;
    return from_ + (std::clamp(v, low_, high_) - low_) / (high_ - low_) * (to_ - from_);
  }
  // Labels and the values they stand at.
  std::vector<std::pair<std::string, double>> labels(int count) const {
    std::vector<std::pair<std::string, double>> result;
    for (const double tick : ticks(low_, high_, count)) {
      if (log_ && tick != std::floor(tick)) continue;
      result.emplace_back(
          log_ ? (tick >= 0.0 && tick <= 10.0 ? number(std::exp2(tick)) : fmt::format("2^{:g}", tick))
               : number(tick),
          log_ ? std::exp2(tick) : tick);
    }
    return result;
  }

 private:
  bool log_;
  double low_, high_, from_, to_;
};

std::string frame(const std::string& x_title, const std::string& y_title) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  return text(0.5 * (kLeft + right), kHeight - 12.0, x_title, {.anchor = "middle"}) +
         text(16.0, 0.5 * (kTop + bottom), y_title, {.anchor = "middle", .vertical = true}) +
         line(kLeft, bottom, right, bottom, "#444") + line(kLeft, kTop, kLeft, bottom, "#444");
}

std::string grid(const Scale& y) {
  std::string result;
  for (const auto& [label, value] : y.labels(6)) {
    result += line(kLeft, y(value), kWidth - kRight, y(value), "#ddd") +
              text(kLeft - 6.0, y(value) + 4.0, label, {.anchor = "end", .size = 11});
  }
  return result;
}

struct LegendEntry {
  std::string name;
  const char* stroke;
};

// A chart with its head: title and legend, in as many rows as it takes, above a body that leaves room for
// one.
struct Picture {
  std::string svg;
  double height = kHeight;
};

Picture with_head(const std::string& title, const std::vector<LegendEntry>& entries,
                  const std::string& body) {
  constexpr double kRow = 16.0;
  std::string head = text(kLeft, 22.0, title, {.size = 15, .bold = true});
  double x = kLeft, y = 34.0;
  for (const LegendEntry& entry : entries) {
    if (entry.name.empty()) continue;
    const double width = 40.0 + 6.3 * static_cast<double>(entry.name.size());
    if (x > kLeft && x + width > kWidth) {
      x = kLeft;
      y += kRow;
    }
    head += line(x, y, x + 18.0, y, entry.stroke, " stroke-width=\"3\"") +
            text(x + 23.0, y + 4.0, entry.name, {.size = 11});
    x += width;
  }
  const double extra = y - 34.0;
  return {head + fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", extra, body),
          kHeight + extra};
}

std::string path_of(const Line& series, const Scale& x, const Scale& y, const char* stroke) {
  std::string points;
  bool drawing = false;
  double last = 0.0;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!x.shows(series.x[i]) || !y.shows(series.y[i])) {
      drawing = false;
      continue;
    }
    const double px = x(series.x[i]), py = y(series.y[i]);
    if (drawing && series.steps) points += fmt::format("L{:.1f} {:.1f}", px, last);
    points += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", px, py);
    drawing = true;
    last = py;
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n", points, stroke);
}

struct Range {
  double low = 0.0, high = 0.0;
  bool empty = true;
  void take(double value, const Axis& axis) {
    if (!std::isfinite(value) || (axis.log2 && value <= 0.0)) return;
    low = empty ? value : std::min(low, value);
    high = empty ? value : std::max(high, value);
    empty = false;
  }
};

Picture histogram(const HistogramChart& chart) {
  require(!chart.series.empty(), "plot", "a histogram without a series");
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
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  const double column = (right - kLeft) / static_cast<double>(high - low + 4);
  const auto position = [&](double exponent) {
    return kLeft + column * (3.0 + exponent - static_cast<double>(low));
  };
  const Scale y({.low = 0.0}, 0.0, greatest, bottom, kTop);
  std::string body;
  for (const Limit& limit : chart.limits)
    if (limit.shaded)
      body += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#f3dede\"/>\n",
          kLeft + 2.2 * column, kTop, position(limit.exponent) - kLeft - 2.2 * column, bottom - kTop);
  body += grid(y) + frame(chart.x_title, chart.y_title);
  const double bar = 0.86 * column / static_cast<double>(chart.series.size());
  std::vector<LegendEntry> names;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const HistogramSeries& series = chart.series[s];
    names.push_back({series.name, colour(s)});
    const auto draw = [&](double x, double share) {
      if (share <= 0.0) return;
      body += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          x + 0.07 * column + bar * static_cast<double>(s), y(share), bar, bottom - y(share), colour(s));
    };
    draw(kLeft + 0.6 * column, series.zero);
    for (std::size_t i = 0; i < series.shares.size(); ++i)
      draw(position(series.first + static_cast<int>(i)), series.shares[i]);
  }
  body += text(kLeft + 1.1 * column, bottom + 16.0, "0", {.anchor = "middle", .size = 11});
  for (int e = low; e <= high; ++e)
    if (e % 5 == 0)
      body += text(position(e), bottom + 16.0, fmt::format("{}", e), {.anchor = "middle", .size = 11});
  double height = kTop + 12.0;
  for (const Limit& limit : chart.limits) {
    body += line(position(limit.exponent), kTop, position(limit.exponent), bottom, "#a33",
                 " stroke-dasharray=\"4 3\"") +
            text(position(limit.exponent) + 4.0, height, limit.name, {.size = 11});
    height += 14.0;
  }
  return with_head(chart.title, names, body);
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  ensure(high > low && count > 0, "plot", "ticks from {} to {}", low, high);
  const double rough = (high - low) / count, power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10.0 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> values;
  for (double i = std::ceil(low / step); i * step <= high * (1.0 + 1e-12) + 1e-300; i += 1.0)
    values.push_back(i * step);
  return values;
}

std::string to_svg(const LineChart& chart) {
  Range x_range, y_range;
  for (const Line& series : chart.lines) {
    require(series.x.size() == series.y.size(), "plot", "line \"{}\" has {} x and {} y", series.name,
            series.x.size(), series.y.size());
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      x_range.take(series.x[i], chart.x);
      y_range.take(series.y[i], chart.y);
    }
  }
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  Axis x_axis = chart.x;
  if (!x_axis.low) x_axis.low = x_range.low;
  if (!x_axis.high) x_axis.high = x_range.high;
  if (x_axis.log2 && x_range.empty) x_axis.log2 = false;
  Axis y_axis = chart.y;
  if (y_axis.log2 && y_range.empty) y_axis.log2 = false;
  const Scale x(x_axis, x_range.low, x_range.high, kLeft, right);
  const Scale y(y_axis, y_range.low, y_range.high, bottom, kTop);
  std::string body = grid(y) + frame(chart.x.title, chart.y.title);
  for (const auto& [label, value] : x.labels(8))
    body += text(x(value), bottom + 16.0, label, {.anchor = "middle", .size = 11});
  for (const Mark& mark : chart.marks)
    body += line(x(mark.x), bottom - 10.0, x(mark.x), bottom, "#a33", " stroke-width=\"1.5\"");
  std::vector<LegendEntry> names;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    body += path_of(chart.lines[i], x, y, colour(i));
    names.push_back({chart.lines[i].name, colour(i)});
  }
  if (!chart.marks.empty()) names.push_back({chart.marks_name, "#a33"});
  const Picture picture = with_head(chart.title, names, body);
  return document(picture.svg, picture.height);
}

std::string to_svg(const HistogramChart& chart) {
  const Picture picture = histogram(chart);
  return document(picture.svg, picture.height);
}

std::string to_svg(const std::vector<HistogramChart>& charts) {
  std::string body;
  double height = 0.0;
  for (const HistogramChart& chart : charts) {
    const Picture picture = histogram(chart);
    body += fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", height, picture.svg);
    height += picture.height;
  }
  return document(body, std::max(height, 1.0));
}

}  // namespace tandem::plot
