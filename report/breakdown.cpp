#include "report/breakdown.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "files/input.h"

namespace tandem::report {

namespace {

constexpr std::size_t kShownCurves = 6;  // in addition to their mean: the number of colours

double first_figure(const tasks::Breakdown& breakdown, std::size_t i) {
  return breakdown.figures.empty() ? 0.0 : breakdown.figures.front().second[i];
}

// Indices of classes with a curve, best first.
std::vector<std::size_t> with_curves(const tasks::Breakdown& breakdown) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < breakdown.curves.values.size(); ++i)
    if (!breakdown.curves.values[i].empty()) places.push_back(i);
  std::ranges::stable_sort(places, std::greater(), [&](std::size_t i) {
    const double figure = first_figure(breakdown, i);
    return std::isfinite(figure) ? figure : -1.0;
  });
  return places;
}

plot::Line line_of(const std::string& name, const std::vector<double>& values, std::size_t colour) {
  plot::Line line{.name = name, .y = values, .colour = colour};
  for (std::size_t i = 0; i < values.size(); ++i)
    line.x.push_back(values.size() > 1 ? static_cast<double>(i) / static_cast<double>(values.size() - 1)
                                       : 0.0);
  return line;
}

std::vector<double> mean_of(const tasks::Breakdown& breakdown, const std::vector<std::size_t>& places) {
  std::size_t points = breakdown.curves.values[places.front()].size();
  for (const std::size_t i : places) points = std::min(points, breakdown.curves.values[i].size());
  std::vector<double> mean(points, 0.0);
  for (const std::size_t i : places)
    for (std::size_t p = 0; p < points; ++p)
      mean[p] += breakdown.curves.values[i][p] / static_cast<double>(places.size());
  return mean;
}

}  // namespace

std::optional<tasks::Breakdown> breakdown_of(const runs::RunRecord& run) {
  const auto text = files::read_text_if_there((run.path / tasks::kBreakdownFile).string());
  if (!text) return std::nullopt;
  const auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
  return json.is_discarded() ? std::nullopt : tasks::breakdown_from(json);
}

Panel curves_panel(const tasks::Breakdown& breakdown) {
  Panel panel{.title = breakdown.curves.title, .unit = "of the newest evaluation"};
  std::vector<std::size_t> places = with_curves(breakdown);
  if (places.empty()) return panel;
  plot::Axis x{.title = breakdown.curves.x, .low = 0.0, .high = 1.0};
  plot::Axis y{.title = breakdown.curves.y, .short_labels = true, .low = 0.0, .high = 1.0};
  plot::LineChart chart{.title = panel.title, .x = x, .y = y, .hovers = 20};
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    panel.legend.push_back({name, swatch_of(chart.lines.size())});
    chart.lines.push_back(line_of(name, values, chart.lines.size()));
  };
  add("mean", mean_of(breakdown, places));
  if (places.size() > kShownCurves) {
    panel.note =
        fmt::format("Mean of {} classes, and the three best and three worst classes.", places.size());
    places.erase(places.begin() + kShownCurves / 2, places.end() - kShownCurves / 2);
  }
  for (const std::size_t i : places) add(breakdown.names[i], breakdown.curves.values[i]);
  panel.svg = plot::to_svg(chart, kLook);
  return panel;
}

std::vector<std::vector<std::string>> breakdown_rows(const tasks::Breakdown& breakdown) {
  std::vector<std::vector<std::string>> rows{{"class"}};
  for (const auto& [name, values] : breakdown.figures) rows[0].push_back(name);
  if (!breakdown.samples.empty()) rows[0].push_back("samples");
  for (std::size_t i = 0; i < breakdown.names.size(); ++i) {
    rows.push_back({breakdown.names[i]});
    for (const auto& [name, values] : breakdown.figures)
      rows.back().push_back(std::isfinite(values[i]) ? fmt::format("{:.2f} %", 100 * values[i]) : "–");
    if (!breakdown.samples.empty()) rows.back().push_back(std::to_string(breakdown.samples[i]));
  }
  return rows;
}

}  // namespace tandem::report
