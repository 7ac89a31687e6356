#include "report/panels.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "report/curves.h"

namespace tandem::report {

namespace {

constexpr int kHovers = 60;

using Field = double (*)(const runs::StepEvent&);

// A line of a chart: the steps of a run, or of one of its phases.
struct StepSeries {
  const runs::RunRecord* run = nullptr;
  std::string phase;
  std::string name;
  std::size_t colour = 0;

  std::vector<runs::StepEvent> steps() const {
    std::vector<runs::StepEvent> own;
    for (const runs::StepEvent& event : run->steps)
      if (event.phase == phase) own.push_back(event);
    return own;
  }
  Curve curve(Field field) const {
    Curve curve;
    for (const runs::StepEvent& event : steps()) curve.add(static_cast<double>(event.step), field(event));
    return curve;
  }
};

std::size_t phases_of(const runs::RunRecord& run) { return std::max<std::size_t>(1, run.phases().size()); }

// For one run, a line for each phase, named `alone` if there is only one; for several, lines in the runs'
// colours.
std::vector<StepSeries> step_series_of(const std::vector<runs::RunRecord>& runs,
                                       const std::vector<std::string>& labels, const std::string& alone) {
  std::vector<StepSeries> all_series;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::vector<std::string> phases = runs[r].phases();
    for (std::size_t p = 0; p < phases.size(); ++p) {
      const bool several = phases.size() > 1;
      const std::string name = runs.size() == 1 ? (several ? phases[p] : alone)
                               : several        ? labels[r] + ", " + phases[p]
                                                : labels[r];
      all_series.push_back({&runs[r], phases[p], name, runs.size() == 1 ? p : r});
    }
  }
  return all_series;
}

// Legend of phases of a single run; else empty.
std::vector<Swatch> legend_of(const std::vector<runs::RunRecord>& runs,
                              const std::vector<StepSeries>& all_series) {
  std::vector<Swatch> legend;
  if (runs.size() > 1 || all_series.size() < 2) return legend;
  for (const StepSeries& series : all_series) legend.push_back({series.name, swatch_of(series.colour)});
  return legend;
}

// Short labels, since charts are small.
plot::Axis short_axis() {
  plot::Axis axis;
  axis.short_labels = true;
  return axis;
}

// The same range in every chart.
plot::Axis steps_axis(const std::vector<runs::RunRecord>& runs) {
  std::int64_t last = 1;
  for (const runs::RunRecord& run : runs) {
    if (!run.steps.empty()) last = std::max(last, run.steps.back().step);
    for (const runs::EvalEvent& event : run.evals) last = std::max(last, event.step);
  }
  return {
      .title = "step", .whole = true, .short_labels = true, .low = 0.0, .high = static_cast<double>(last)};
}

// Limit of points per curve, so that the page stays small.
std::size_t points_for(std::size_t runs) { return std::clamp<std::size_t>(3000 / runs, 120, 999); }

plot::Line line_of(const std::string& name, Curve curve, std::size_t colour) {
  return {.name = name, .x = std::move(curve.x), .y = std::move(curve.y), .colour = colour};
}

bool any_finite(const Curve& curve) {
  return std::any_of(curve.y.begin(), curve.y.end(), [](double value) { return std::isfinite(value); });
}

// Adds the raw values as a faint line, and their running mean. With many runs, only the mean.
void add_smoothed(std::vector<plot::Line>& lines, const Curve& curve, const std::string& name,
                  std::size_t colour, std::size_t runs) {
  if (!any_finite(curve)) return;
  const std::size_t window = smoothing_window(curve.x.size()), most = points_for(runs);
  if (window == 1) {
    lines.push_back(line_of(name, curve, colour));
    return;
  }
  if (runs <= 3) {
    lines.push_back(line_of(name, downsampled(curve, most), colour));
    lines.back().faint = true;
  }
  lines.push_back(line_of(name, smoothed(curve, window, std::min<std::size_t>(most, 300)), colour));
}

// Whether some values are so large that a linear axis would flatten the others.
bool wants_log(const std::vector<plot::Line>& lines) {
  std::vector<double> values;
  for (const plot::Line& line : lines) values.insert(values.end(), line.y.begin(), line.y.end());
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return false;
  std::sort(values.begin(), values.end());
  const double greatest = values.back(), usual = values[values.size() * 98 / 100];
  return values.front() > 0.0 && (greatest > 20.0 * median(values) || greatest > 3.0 * usual);
}

std::string smoothing_note(const std::vector<runs::RunRecord>& runs) {
  std::size_t most = 1;
  for (const runs::RunRecord& run : runs) most = std::max(most, smoothing_window(run.steps.size()));
  if (most == 1) return "";
  const std::string line = runs.size() == 1 ? fmt::format("running mean of {} values", most)
                                            : "running mean of a fiftieth of the values";
  return runs.size() <= 3 ? fmt::format("Faint: as logged; line: {}.", line)
                          : fmt::format("Lines: {}.", line);
}

// Splits of a run, the usual one first.
std::vector<std::string> splits_of(const runs::RunRecord& run) {
  std::vector<std::string> splits{usual_split(run)};
  for (const runs::EvalEvent& event : run.evals)
    if (std::find(splits.begin(), splits.end(), event.split) == splits.end()) splits.push_back(event.split);
  return splits;
}

// Colour of a split, the same in every chart of a run, after those of the training phases.
std::size_t colour_of(const runs::RunRecord& run, const std::string& split) {
  const auto splits = splits_of(run);
  return phases_of(run) +
         static_cast<std::size_t>(std::find(splits.begin(), splits.end(), split) - splits.begin());
}

Panel loss_panel(const std::vector<runs::RunRecord>& runs, const std::vector<std::string>& labels) {
  Panel panel{.title = "Loss", .unit = "of training steps", .note = smoothing_note(runs)};
  plot::LineChart chart{.title = "Loss", .x = steps_axis(runs), .y = short_axis(), .hovers = kHovers};
  const bool single = runs.size() == 1;
  const std::vector<StepSeries> all_series = step_series_of(runs, labels, "training");
  for (const StepSeries& series : all_series)
    add_smoothed(chart.lines, series.curve([](const runs::StepEvent& e) { return e.loss; }), series.name,
                 series.colour, runs.size());
  if (single) {
    std::map<std::string, Curve> evaluated;
    for (const runs::EvalEvent& event : runs[0].evals)
      for (const auto& [name, value] : event.metrics)
        if (name == "loss") evaluated[event.split].add(static_cast<double>(event.step), value);
    if (!evaluated.empty()) panel.unit = "of training steps and evaluations";
    for (const StepSeries& series : all_series)
      panel.legend.push_back({series.name, swatch_of(series.colour)});
    for (const std::string& split : splits_of(runs[0])) {
      if (!evaluated.contains(split)) continue;
      const std::size_t colour = colour_of(runs[0], split);
      panel.legend.push_back({split, swatch_of(colour)});
      chart.lines.push_back(line_of(split, evaluated[split], colour));
      chart.lines.back().dots = chart.lines.back().x.size() <= 60;
    }
  }
  if (chart.lines.empty()) {
    panel.note = "No loss was logged.";
    return panel;
  }
  chart.y.log10 = wants_log(chart.lines);
  if (chart.y.log10) panel.unit += ", logarithmic";
  panel.svg = plot::to_svg(chart, kLook);
  return panel;
}

// Names of evaluated metrics in order of appearance, optionally with the loss.
std::vector<std::string> metric_names(const std::vector<runs::RunRecord>& runs, bool with_loss) {
  std::vector<std::string> names;
  for (const runs::RunRecord& run : runs)
    for (const runs::EvalEvent& event : run.evals)
      for (const auto& [name, value] : event.metrics)
        if ((with_loss || name != "loss") && std::find(names.begin(), names.end(), name) == names.end())
          names.push_back(name);
  return names;
}

Curve metric_curve(const runs::RunRecord& run, const std::string& split, const std::string& name) {
  Curve curve;
  const double factor = run.kind_of(name).share ? 100.0 : 1.0;
  for (const runs::EvalEvent& event : run.evals)
    for (const auto& [own, value] : event.metrics)
      if (own == name && event.split == split) curve.add(static_cast<double>(event.step), factor * value);
  return curve;
}

std::string title_of(const std::string& metric) {
  if (metric == "loss") return "Evaluation loss";
  if (metric.starts_with("top")) return "Top-" + metric.substr(3) + " accuracy";
  std::string text = metric;
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

// A panel for each metric: with a line for each split of one run, or a line for each of several runs.
std::vector<Panel> metric_panels(const std::vector<runs::RunRecord>& runs,
                                 const std::vector<std::string>& labels) {
  std::vector<Panel> panels;
  const bool single = runs.size() == 1;
  for (const std::string& name : metric_names(runs, !single)) {
    const bool share = runs[0].kind_of(name).share;
    Panel panel{.title = title_of(name), .unit = share ? "%" : ""};
    plot::LineChart chart{.title = panel.title, .x = steps_axis(runs), .y = short_axis(), .hovers = kHovers};
    const auto add = [&](const std::string& label, const Curve& curve, std::size_t colour) {
      if (!any_finite(curve)) return false;
      chart.lines.push_back(line_of(label, downsampled(curve, points_for(runs.size())), colour));
      chart.lines.back().dots = curve.x.size() <= 60;
      return true;
    };
    if (single) {
      for (const std::string& split : splits_of(runs[0]))
        if (add(split, metric_curve(runs[0], split, name), colour_of(runs[0], split)))
          panel.legend.push_back({split, swatch_of(colour_of(runs[0], split))});
    } else {
      for (std::size_t r = 0; r < runs.size(); ++r)
        add(labels[r], metric_curve(runs[r], usual_split(runs[r]), name), r);
    }
    if (chart.lines.empty()) continue;
    chart.y.log10 = !share && wants_log(chart.lines);
    if (chart.y.log10) panel.unit = "logarithmic";
    panel.svg = plot::to_svg(chart, kLook);
    panels.push_back(std::move(panel));
  }
  return panels;
}

// A field of step events that is drawn unsmoothed, one line per run.
struct Plain {
  std::string title, unit;
  Field field;
  bool log10 = false, log2 = false, steps = false;
};

plot::LineChart plain_chart(const Plain& what, const std::vector<runs::RunRecord>& runs,
                            const std::vector<std::string>& labels) {
  plot::LineChart chart{.title = what.title, .x = steps_axis(runs), .y = short_axis(), .hovers = kHovers};
  chart.y.log10 = what.log10;
  chart.y.log2 = what.log2;
  for (const StepSeries& series : step_series_of(runs, labels, what.title)) {
    const Curve curve = series.curve(what.field);
    if (!any_finite(curve)) continue;
    chart.lines.push_back(line_of(series.name, downsampled(curve, points_for(runs.size())), series.colour));
    chart.lines.back().steps = what.steps;
  }
  return chart;
}

Panel rate_panel(const std::vector<runs::RunRecord>& runs, const std::vector<std::string>& labels) {
  Panel panel{.title = "Learning rate", .unit = "logarithmic"};
  const auto chart = plain_chart(
      {.title = panel.title, .field = [](const runs::StepEvent& e) { return e.lr; }, .log10 = true}, runs,
      labels);
  panel.legend = legend_of(runs, step_series_of(runs, labels, panel.title));
  if (!chart.lines.empty()) panel.svg = plot::to_svg(chart, kLook);
  return panel;
}

// Steps at which the number of skipped steps grew, without marks too close to distinguish.
std::vector<plot::Mark> skips_of(const StepSeries& series, std::optional<std::size_t> colour, double span) {
  std::vector<plot::Mark> marks;
  std::int64_t before = 0;
  for (const runs::StepEvent& event : series.steps()) {
    const auto step = static_cast<double>(event.step);
    if (event.skipped > before && (marks.empty() || step - marks.back().x >= span / 420.0))
      marks.push_back({step, colour});
    before = event.skipped;
  }
  return marks;
}

Panel scale_panel(const std::vector<runs::RunRecord>& runs, const std::vector<std::string>& labels) {
  Panel panel{.title = "Loss scale", .unit = "logarithmic"};
  auto chart = plain_chart({.title = panel.title,
                            .field = [](const runs::StepEvent& e) { return e.loss_scale; },
                            .log2 = true,
                            .steps = true},
                           runs, labels);
  if (chart.lines.empty()) return panel;
  std::int64_t skipped = 0;
  double span = 1.0;
  bool scaled = false;
  for (const plot::Line& line : chart.lines) {
    span = std::max(span, line.x.back() - line.x.front());
    scaled = scaled || std::any_of(line.y.begin(), line.y.end(), [](double v) { return v != 1.0; });
  }
  const std::vector<StepSeries> all_series = step_series_of(runs, labels, panel.title);
  for (const runs::RunRecord& run : runs) skipped += run.skipped();
  for (const StepSeries& series : all_series) {
    const auto marks =
        skips_of(series, all_series.size() == 1 ? std::nullopt : std::optional(series.colour), span);
    chart.marks.insert(chart.marks.end(), marks.begin(), marks.end());
  }
  if (!scaled && skipped == 0) {
    panel.note = "The loss was not scaled, and no step was skipped.";
    return panel;
  }
  panel.legend = legend_of(runs, all_series);
  if (skipped == 0) {
    panel.note = "No step was skipped.";
  } else if (runs.size() > 1) {
    panel.note = "Ticks at the bottom: skipped steps.";
  } else {
    if (panel.legend.empty()) panel.legend = {{"scale", "f0"}};
    panel.legend.push_back({fmt::format("skipped steps ({})", skipped), "alarm"});
  }
  // Makes room for the ticks below the line.
  double least = std::numeric_limits<double>::infinity();
  for (const plot::Line& line : chart.lines)
    for (const double value : line.y)
      if (value > 0.0) least = std::min(least, value);
  if (skipped > 0 && std::isfinite(least)) chart.y.low = least / 4.0;
  panel.svg = plot::to_svg(chart, kLook);
  return panel;
}

Panel smooth_panel(const Plain& what, const std::vector<runs::RunRecord>& runs,
                   const std::vector<std::string>& labels) {
  Panel panel{.title = what.title, .unit = what.unit};
  plot::LineChart chart{.title = what.title, .x = steps_axis(runs), .y = short_axis(), .hovers = kHovers};
  chart.y.log10 = what.log10;
  const std::vector<StepSeries> all_series = step_series_of(runs, labels, what.title);
  for (const StepSeries& series : all_series)
    add_smoothed(chart.lines, series.curve(what.field), series.name, series.colour, runs.size());
  panel.legend = legend_of(runs, all_series);
  if (chart.lines.empty()) return panel;
  if (!what.log10) chart.y.low = 0.0;
  panel.svg = plot::to_svg(chart, kLook);
  return panel;
}

}  // namespace

std::string swatch_of(std::size_t colour) {
  return fmt::format("f{}{}", colour % plot::kColours, colour >= plot::kColours ? " dashed" : "");
}

std::string usual_split(const runs::RunRecord& run) {
  std::map<std::string, int> counts;
  std::string usual;
  for (const runs::EvalEvent& event : run.evals)
    if (++counts[event.split] > (usual.empty() ? 0 : counts[usual]) || usual.empty()) usual = event.split;
  return usual;
}

std::vector<Panel> panels_of(const std::vector<runs::RunRecord>& runs,
                             const std::vector<std::string>& labels) {
  std::vector<Panel> panels{loss_panel(runs, labels)};
  for (Panel& panel : metric_panels(runs, labels)) panels.push_back(std::move(panel));
  panels.push_back(rate_panel(runs, labels));
  panels.push_back(scale_panel(runs, labels));
  panels.push_back(smooth_panel({.title = "Throughput",
                                 .unit = "items per second",
                                 .field = [](const runs::StepEvent& e) { return e.items_per_s; }},
                                runs, labels));
  panels.push_back(smooth_panel({.title = "Norm of the gradient",
                                 .unit = "before clipping, logarithmic",
                                 .field = [](const runs::StepEvent& e) { return e.grad_norm; },
                                 .log10 = true},
                                runs, labels));
  std::erase_if(panels, [](const Panel& panel) { return panel.svg.empty() && panel.note.empty(); });
  return panels;
}

}  // namespace tandem::report
