// Facts about ranks: those that must be the same on all of them, and those that a run's record lists for
// each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "config/config.h"
#include "tasks/task.h"

namespace tandem::train {

using tasks::Json;

// The machine of this process: {"host", "cpu", "level", "threads", "gpu"}, from runs::environment(). "gpu" is
// this rank's, or null.
Json facts_of_rank(const Json& environment);
// The same and, as member "same", what must not differ: {"version", "build", "compiler", "libraries",
// "level", "configuration", "data"}. `configuration`: the configuration without keys that may differ between
// ranks.
Json facts_of_rank(const Json& environment, const Json& configuration, const tasks::Data& data);

// The first difference in "same", between rank 0 and the first rank that differs; absent if all are equal.
std::optional<std::string> difference(std::span<const Json> facts);

// "rank 1: node2, AMD EPYC, level v3, 1 thread"
std::string text_of_rank(int rank, const Json& facts);

}  // namespace tandem::train
