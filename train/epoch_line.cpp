#include "train/epoch_line.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/units.h"

namespace tandem::train {

std::vector<LinePart> epoch_line(const EpochFigures& figures) {
  enum Rank { kEpoch, kBest, kTime, kTrainingLoss, kLoss, kRate, kOthers };
  std::vector<LinePart> parts{{fmt::format("epoch {}/{}", figures.epoch, figures.epochs), kEpoch}};
  if (!figures.losses.empty()) parts.push_back({figures.losses, kTrainingLoss});
  tasks::Metrics metrics = figures.metrics;
  std::ranges::stable_partition(metrics, [&](const auto& metric) { return metric.first == figures.best; });
  std::vector<std::pair<std::string, std::string>> texts;
  if (!figures.best.empty() && (metrics.empty() || metrics.front().first != figures.best))
    texts.emplace_back(figures.best, "–");
  for (const auto& [name, value] : metrics) texts.emplace_back(name, decimal_text(value, 4));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& [name, value] = texts[i];
    const int rank = i == 0 ? kBest : name == "loss" ? kLoss : kOthers + static_cast<int>(i);
    parts.push_back({fmt::format("{}{} {}", i == 0 ? figures.split + ": " : "", name, value), rank});
  }
  parts.push_back({fmt::format("{} {}/s", count_text(figures.items_per_s), figures.items), kRate});
  parts.push_back({duration_text(figures.seconds), kTime});
  return parts;
}

}  // namespace tandem::train
