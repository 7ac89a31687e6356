#include "metrics/confusion_matrix.h"

#include <fmt/core.h>

#include "core/error.h"

namespace tandem::metrics {

namespace {

constexpr Index kMaxClasses = 4096;

double mean_of(const std::vector<Overlap>& overlaps, std::optional<double> Overlap::*figure) {
  double sum = 0.0;
  std::int64_t present = 0;
  for (const Overlap& overlap : overlaps) {
    if (!(overlap.*figure)) continue;
    sum += *(overlap.*figure);
    ++present;
  }
  return present > 0 ? sum / static_cast<double>(present) : 0.0;
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(Index count) : classes(count) {
  require(count <= kMaxClasses, "",
          "eval.confusion: a confusion matrix of {} classes is too large (at most {}); leave it out", count,
          kMaxClasses);
  counts.resize(static_cast<std::size_t>(count * count));
}

std::string ConfusionMatrix::csv(const std::vector<std::string>& class_names) const {
  const auto name = [&](Index c) {
    if (static_cast<std::size_t>(c) >= class_names.size()) return std::to_string(c);
    std::string quoted;
    for (const char letter : class_names[static_cast<std::size_t>(c)])
      quoted += letter == '"' ? "\"\"" : std::string(1, letter);
    return quoted.find_first_of(",\"\n") == std::string::npos ? quoted : fmt::format("\"{}\"", quoted);
  };
  std::string text = "true\\predicted";
  for (Index c = 0; c < classes; ++c) text += fmt::format(",{}", name(c));
  for (Index row = 0; row < classes; ++row) {
    text += fmt::format("\n{}", name(row));
    for (Index c = 0; c < classes; ++c)
      text += fmt::format(",{}", counts[static_cast<std::size_t>(row * classes + c)]);
  }
  return text + "\n";
}

std::vector<std::vector<std::int64_t>> ConfusionMatrix::rows() const {
  std::vector<std::vector<std::int64_t>> rows;
  for (auto first = counts.begin(); first != counts.end(); first += classes)
    rows.emplace_back(first, first + classes);
  return rows;
}

std::int64_t ConfusionMatrix::right() const {
  std::int64_t right = 0;
  for (Index c = 0; c < classes; ++c) right += at(c, c);
  return right;
}

std::vector<Overlap> overlaps_of(const ConfusionMatrix& confusion) {
  std::vector<Overlap> overlaps(static_cast<std::size_t>(confusion.classes));
  for (Index c = 0; c < confusion.classes; ++c) {
    std::int64_t truth = 0, predicted = 0;
    for (Index other = 0; other < confusion.classes; ++other) {
      truth += confusion.at(c, other);
      predicted += confusion.at(other, c);
    }
    const std::int64_t right = confusion.at(c, c);
    if (truth + predicted == 0) continue;
    overlaps[static_cast<std::size_t>(c)] = {
        .iou = static_cast<double>(right) / static_cast<double>(truth + predicted - right),
        .dice = 2.0 * static_cast<double>(right) / static_cast<double>(truth + predicted)};
  }
  return overlaps;
}

double mean_iou(const std::vector<Overlap>& overlaps) { return mean_of(overlaps, &Overlap::iou); }
double mean_dice(const std::vector<Overlap>& overlaps) { return mean_of(overlaps, &Overlap::dice); }

}  // namespace tandem::metrics
