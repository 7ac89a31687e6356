#include "tasks/metrics.h"

#include <fmt/format.h>

#include "core/error.h"

namespace tandem::tasks {

MetricKind kind_of(const MetricKinds& kinds, const std::string& name) {
  for (const auto& [known, kind] : kinds)
    if (known == name) return kind;
  return {};
}

double metric(const Metrics& metrics, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
    names.push_back(known);
  }
  throw UserError("",
                  fmt::format("there is no metric \"{}\"; the task has {}", name, fmt::join(names, ", ")));
}

}  // namespace tandem::tasks
