// Figures with names: what an evaluation says of a model.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::tasks {

// Name and value, in the order to print: {"accuracy", 0.93}, {"loss", 0.21}.
using Metrics = std::vector<std::pair<std::string, double>>;

// What a figure is.
struct MetricKind {
  bool share = false;  // of 1: shown in percent
  bool greater_is_better = false;
  friend bool operator==(const MetricKind&, const MetricKind&) = default;
};
// By name, in the order that documents list them.
using MetricKinds = std::vector<std::pair<std::string, MetricKind>>;

// That of `name`; of a figure that nothing is said of, a number of which less is better.
MetricKind kind_of(const MetricKinds& kinds, const std::string& name);

// The value of `name`; throws UserError listing what there is.
double metric(const Metrics& metrics, const std::string& name);

}  // namespace tandem::tasks
