#include "cli/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "files/output.h"
#include "models/advice.h"

namespace tandem::cli {

namespace {

// One line for all layers of the same size, in descending order of their share of the FLOP.
std::vector<std::string> merged(std::vector<models::ShapeAdvice> advice) {
  std::vector<std::pair<double, std::string>> lines;
  while (!advice.empty()) {
    const models::ShapeAdvice first = advice.front();
    double share = 0.0;
    const auto same = std::erase_if(advice, [&](const models::ShapeAdvice& other) {
      const bool equal = other.inputs == first.inputs && other.outputs == first.outputs;
      share += equal ? other.flop_share : 0.0;
      return equal;
    });
    const std::string more = same > 1 ? fmt::format(" (and {} like it)", same - 1) : "";
    lines.emplace_back(
        share, fmt::format("{}{}; {:.1f} % of the FLOP", models::to_string(first), more, 100.0 * share));
  }
  std::ranges::stable_sort(lines, std::ranges::greater{}, &std::pair<double, std::string>::first);
  std::vector<std::string> texts;
  for (auto& [share, text] : lines) texts.push_back(std::move(text));
  return texts;
}

}  // namespace

models::ModelSummary summarised(tasks::Task& task, Index samples) {
  models::ModelSummary whole;
  for (const tasks::Signature& called : task.signatures()) {
    models::ModelSummary part =
        models::summarise(*called.module, called.sample, called.dtype, samples, called.batch_axis);
    if (called.path.empty()) return part;
    models::add_part(whole, std::move(part), called.path);
  }
  return whole;
}

void print_advice(const models::ModelSummary& summary, Index batch, std::optional<double> share) {
  constexpr std::size_t kShown = 8;
  const double intensity = models::arithmetic_intensity(summary, batch);
  output::print(
      "mixed precision  {:.1f} FLOP per byte in FP32, {:.1f} with 16-bit tensors (forward, batch {})\n",
      intensity, 2.0 * intensity, batch);
  if (share)
    output::print(
        "                 {:.0f} % of the forward time is in products that run in 16 bits (in FP32 on this "
        "machine): speedup of the\n                 forward pass {:.1f} × if they are 8 × as fast, {:.1f} × "
        "if 16 ×, always below {:.1f} × (Amdahl);\n                 savings in memory traffic come on top\n",
        100.0 * *share, models::amdahl_bound(*share, 8.0), models::amdahl_bound(*share, 16.0),
        models::amdahl_bound(*share, std::numeric_limits<double>::infinity()));
  else
    output::print(
        "                 the time of products is unknown: the model does not fit in this machine's "
        "memory\n");
  const auto lines = merged(models::shape_advice(summary));
  for (std::size_t i = 0; i < lines.size() && i < kShown; ++i)
    output::print("{}{}\n", i == 0 ? "sizes            " : "                 ", lines[i]);
  if (lines.size() > kShown) output::print("                 and {} more sizes\n", lines.size() - kShown);
}

}  // namespace tandem::cli
