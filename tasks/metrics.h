// Named metrics of an evaluation.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::tasks {

// Name and value, in the order of printing: {"accuracy", 0.93}, {"loss", 0.21}.
using Metrics = std::vector<std::pair<std::string, double>>;

// Properties of a metric.
struct MetricKind {
  bool share = false;  // of 1; shown in percent
  bool greater_is_better = false;
  friend bool operator==(const MetricKind&, const MetricKind&) = default;
};
// By name, in the order of the documentation.
using MetricKinds = std::vector<std::pair<std::string, MetricKind>>;

// The kind of `name`; default: a plain number, lower is better.
MetricKind kind_of(const MetricKinds& kinds, const std::string& name);

// The value of `name`; throws UserError listing the available ones.
double metric(const Metrics& metrics, const std::string& name);

}  // namespace tandem::tasks
