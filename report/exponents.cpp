#include "report/exponents.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

namespace tandem::report {

std::string flushed_text(std::int64_t flushed, double non_zero, std::optional<int> saving_scale) {
  if (non_zero <= 0.0) return "All values are zero.";
  if (flushed == 0) return "FP16 represents all non-zero values without a loss scale.";
  const std::string saved = saving_scale && *saving_scale > 0
                                ? fmt::format(" A scale of 2^{} keeps 99.9 % of them.", *saving_scale)
                                : "";
  return fmt::format("Without a loss scale FP16 rounds {:.3g} % of the non-zero values to zero.{}",
                     100.0 * static_cast<double>(flushed) / non_zero, saved);
}

Exponents recorded_exponents(const std::vector<runs::RunRecord>& runs,
                             const std::vector<std::string>& labels) {
  constexpr std::size_t kMost = 4;  // distinguishable bars side by side
  Exponents found;
  for (std::size_t r = 0; r < runs.size() && found.series.size() < kMost; ++r) {
    const auto& gradients = runs[r].gradients;
    if (!gradients || gradients->total <= 0) continue;
    const auto total = static_cast<double>(gradients->total);
    const double non_zero = total - static_cast<double>(gradients->zeros);
    plot::HistogramSeries series{.name = runs.size() == 1 ? "weight gradients" : labels[r],
                                 .first = gradients->first,
                                 .shares = gradients->counts,
                                 .zero = static_cast<double>(gradients->zeros) / total};
    for (double& share : series.shares) share /= total;
    found.series.push_back(std::move(series));
    std::string fact = runs.size() == 1 ? "" : labels[r] + ": ";
    fact += flushed_text(gradients->flushed, non_zero, gradients->saving_scale);
    found.facts.push_back(fact);
  }
  if (found.series.empty()) {
    found.missing = "The run recorded none: it has not been evaluated, or its version did not record them.";
  } else {
    found.source = runs.size() == 1 ? fmt::format("weight gradients of step {}", runs[0].gradients->step)
                                    : "weight gradients at the last evaluation";
    if (runs.size() > kMost && found.series.size() == kMost) found.source += ", of the first four runs";
  }
  return found;
}

Panel exponents_panel(const Exponents& exponents) {
  Panel panel{.title = "Exponents of gradients", .unit = exponents.source};
  if (exponents.series.empty()) {
    panel.note = exponents.missing;
    return panel;
  }
  panel.svg = plot::to_svg(plot::HistogramChart{.title = panel.title,
                                                .x_title = "log2 of the magnitude; 0: values that are zero",
                                                .series = exponents.series,
                                                .limits = {{.name = "×1", .exponent = -25, .shaded = true},
                                                           {.name = "×2^8", .exponent = -33},
                                                           {.name = "×2^16", .exponent = -41}}},
                           kLook);
  for (std::size_t s = 0; s < exponents.series.size(); ++s)
    panel.legend.push_back({exponents.series[s].name, swatch_of(s)});
  panel.legend.push_back({"FP16 rounds to zero", "shade"});
  panel.legend.push_back({"limit at a loss scale of 1, 2^8, 2^16", "alarm"});
  panel.note = fmt::format("{}", fmt::join(exponents.facts, "\n"));
  return panel;
}

}  // namespace tandem::report
