// histogram: exponents of the activation gradients of a network in training, the share that FP16 rounds to
// zero at several loss scales, and the final dynamic scale.
#include <fmt/core.h>

#include <cmath>

#include "config/load.h"
#include "report/table.h"
#include "studies/demo/demo.h"
#include "studies/inspect/gradients.h"

namespace tandem::demo {

namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

void run_histogram(Session& session) {
  const bool small = session.small();
  const config::Loaded loaded = config::load(small ? "digits_lenet" : "fashion_resnet20",
                                             {small ? "optimizer.lr=0.01" : "optimizer.lr=0.05"});
  train::prepare_machine(loaded);
  train::Workbench bench(loaded, {});
  // The scale doubles every 20 steps, so that it settles soon.
  amp::Precision precision = amp::Precision::amp_fp16();
  precision.scaler.initial = 1024.0;
  precision.scaler.interval = 20;
  const std::int64_t steps = small ? 200 : 300;
  double scale = 0.0;
  {
    const auto learners = bench.make_learners(precision);
    optim::Step* const step = learners->front().step.get();
    const amp::ResolvedPrecision resolved(precision, bench.model());
    for (std::int64_t i = 0; i < steps; ++i) {
      step->backward(bench.loss(bench.next_batch(), resolved, static_cast<std::uint32_t>(i)));
      step->apply();
      if (i % 100 == 99) session.progress(fmt::format("step {} of {}", i + 1, steps));
    }
    scale = step->synchronize().next_loss_scale;
  }
  const int dynamic = static_cast<int>(std::lround(std::log2(scale)));
  const inspect::GradientReport report = inspect::report_gradients(bench, small ? 2 : 4);
  session.say(fmt::format(
      "{} after {} steps in FP16; the dynamic loss scale is 2^{}. Activation gradients of each layer,\n"
      "in % of all: zeros, and values that FP16 rounds to zero.\n",
      loaded.config.name, steps, dynamic));
  report::Table table(
      {"layer", "log2 from -48 to 15", "zero", "scale 1", "8", "2^15", fmt::format("2^{}", dynamic)});
  table.right_from(2);
  Json layers = Json::array();
  const auto add = [&](const inspect::LayerGradients& layer) {
    const amp::ExponentHistogram& h = layer.activations;
    if (h.total() == 0) return;
    std::vector<std::string> row{layer.name, fmt::format("|{}|", inspect::sparkline(h, -48, 15)),
                                 fmt::format("{:.1f}", share(h.zeros(), h.total()))};
    Json flushed = Json::object();
    for (const int k : {0, 3, 15, dynamic}) {
      row.push_back(fmt::format("{:.2f}", share(h.flushed(k), h.total())));
      flushed[fmt::format("2^{}", k)] = share(h.flushed(k), h.total());
    }
    table.add(row);
    layers.push_back({{"layer", layer.name},
                      {"values", h.total()},
                      {"zeros", share(h.zeros(), h.total())},
                      {"flushed", flushed},
                      {"predicted_zeros", share(h.zeros() + h.flushed(0), h.total())},
                      {"measured_zeros", share(layer.measured.zeros(), layer.measured.total())}});
  };
  for (const auto& layer : report.layers) add(layer);
  add(report.all);
  table.print();

  auto charts = inspect::charts_of(report);
  for (auto& chart : charts)
    chart.limits.push_back(
        {.name = fmt::format("at the dynamic scale 2^{}", dynamic), .exponent = -25.0 - dynamic});
  session.chart("layers", plot::to_svg(charts));
  session.chart("gradients", plot::to_svg(charts.front()));
  const amp::ExponentHistogram& h = report.all.activations;
  const auto non_zero = h.total() - h.zeros();
  const double predicted = share(h.zeros() + h.flushed(0), h.total());
  const double measured = share(report.all.measured.zeros(), report.all.measured.total());
  session.values = {{"dynamic_log2_scale", dynamic},
                    {"flushed_of_non_zero",
                     {{"1", share(h.flushed(0), non_zero)},
                      {"8", share(h.flushed(3), non_zero)},
                      {"dynamic", share(h.flushed(dynamic), non_zero)}}},
                    {"predicted_zeros", predicted},
                    {"measured_zeros", measured},
                    {"layers", layers}};
  const bool shown = h.flushed(0) > h.flushed(3) && h.flushed(3) > h.flushed(dynamic) &&
                     10 * h.flushed(dynamic) <= h.flushed(0) && std::abs(predicted - measured) < 1.0;
  session.verdict(shown, fmt::format("Without a scale, FP16 flushes {:.2f} % of the non-zero gradients, at "
                                     "scale 8 {:.2f} %, at the dynamic scale 2^{} {:.3f} %; {:.1f} % zeros "
                                     "were predicted from FP32 and {:.1f} % measured in FP16.",
                                     share(h.flushed(0), non_zero), share(h.flushed(3), non_zero), dynamic,
                                     share(h.flushed(dynamic), non_zero), predicted, measured));
}

}  // namespace tandem::demo
