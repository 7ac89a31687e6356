#include "tasks/confusion_matrix.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tandem::tasks {

namespace {

constexpr Index kMaxClasses = 4096;

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

nlohmann::ordered_json ConfusionMatrix::json() const {
  auto rows = nlohmann::ordered_json::array();
  for (Index row = 0; row < classes; ++row) {
    const auto first = counts.begin() + row * classes;
    rows.push_back(std::vector<std::int64_t>(first, first + classes));
  }
  return rows;
}

}  // namespace tandem::tasks
