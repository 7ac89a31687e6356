// Figures with names: what an evaluation says of a model.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::tasks {

// Name and value, in the order to print: {"accuracy", 0.93}, {"loss", 0.21}.
using Metrics = std::vector<std::pair<std::string, double>>;

// The value of `name`; throws UserError listing what there is.
double metric(const Metrics& metrics, const std::string& name);

}  // namespace tandem::tasks
