#include "studies/inspect/gradients.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "autograd/engine.h"

namespace tandem::inspect {

namespace {

struct Batch {
  datasets::Batch batch;
  std::uint32_t step;
};

std::vector<amp::GradientCollector::Layer> collect(train::Workbench& bench, const std::vector<Batch>& batches,
                                                   const amp::ResolvedPrecision& resolved,
                                                   const amp::SegmentedLossScale* borders) {
  amp::GradientCollector collector(bench.model(), 1.0, false);
  const amp::BorderScope scope(borders);
  for (const Batch& entry : batches) {
    for (std::size_t phase = 0; phase < bench.phases(); ++phase)
      backward(bench.loss(entry.batch, resolved, entry.step, phase));
    bench.model().clear_gradients();
  }
  return collector.layers();
}

}  // namespace

GradientReport report_gradients(train::Workbench& bench, std::int64_t batches,
                                const amp::SegmentedLossScale* borders) {
  std::vector<Batch> chosen;
  for (std::int64_t i = 0; i < batches; ++i)
    chosen.push_back({bench.next_batch(), static_cast<std::uint32_t>(i)});
  const amp::ResolvedPrecision wide(amp::Precision::fp32());
  const amp::ResolvedPrecision narrow({.level = amp::Level::O1, .dtype = DType::f16});
  GradientReport report{.all = {.name = "all layers"}, .batches = batches};
  std::unordered_map<std::string, amp::ExponentHistogram> measured;
  for (auto& layer : collect(bench, chosen, narrow, borders)) measured.emplace(layer.name, layer.activations);
  for (auto& layer : collect(bench, chosen, wide, borders)) {
    report.layers.push_back({.name = layer.name,
                             .activations = layer.activations,
                             .weights = layer.weights,
                             .measured = measured[layer.name]});
    const LayerGradients& added = report.layers.back();
    report.all.activations.add(added.activations);
    report.all.weights.add(added.weights);
    report.all.measured.add(added.measured);
  }
  return report;
}

plot::HistogramSeries series_of(const std::string& name, const amp::ExponentHistogram& histogram) {
  plot::HistogramSeries series{.name = name, .first = histogram.lowest().value_or(0)};
  const double total = std::max(1.0, static_cast<double>(histogram.total()));
  for (int e = series.first; e <= histogram.highest().value_or(-1 + series.first); ++e)
    series.shares.push_back(static_cast<double>(histogram.count(e)) / total);
  series.zero = static_cast<double>(histogram.zeros()) / total;
  return series;
}

std::vector<plot::HistogramChart> charts_of(const GradientReport& report) {
  const auto chart = [](const std::string& title, const LayerGradients& layer) {
    plot::HistogramChart result{.title = title,
                                .series = {series_of("activation gradients", layer.activations)}};
    if (layer.weights.total() > 0) result.series.push_back(series_of("weight gradients", layer.weights));
    result.limits = {{.name = "FP16 flushes at scale 1", .exponent = -25, .shaded = true},
                     {.name = "at scale 8", .exponent = -28},
                     {.name = "at scale 2^15", .exponent = -40}};
    return result;
  };
  std::vector<plot::HistogramChart> charts{chart("Gradients of all layers", report.all)};
  for (const LayerGradients& layer : report.layers) charts.push_back(chart(layer.name, layer));
  return charts;
}

std::string sparkline(const amp::ExponentHistogram& histogram, int low, int high) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<std::int64_t> columns;
  for (int e = low; e <= high; e += 2)
    columns.push_back(histogram.count(e) + (e < high ? histogram.count(e + 1) : 0));
  const std::int64_t greatest = std::max<std::int64_t>(1, *std::ranges::max_element(columns));
  std::string text;
  for (const std::int64_t count : columns) {
    const double height = 8.0 * static_cast<double>(count) / static_cast<double>(greatest);
    text += kBlocks[count > 0 ? std::max(1, static_cast<int>(std::lround(height))) : 0];
  }
  return text;
}

}  // namespace tandem::inspect
