// What ranks are and compute with: what has to be the same on all of them, and what a reader of a run's
// record wants to know of each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "config/config.h"
#include "tasks/task.h"

namespace tandem::train {

using tasks::Json;

// What this process runs on: {"host", "cpu", "level", "threads", "gpu"}, by runs::environment(). "gpu": the
// one that is this rank's, or null.
Json facts_of_rank(const Json& environment);
// With what must be the same, as member "same": {"version", "build", "compiler", "libraries", "level",
// "configuration", "data"}. `course`: the configuration without what ranks may differ in.
Json facts_of_rank(const Json& environment, const Json& course, const tasks::Data& data);

// What must be the same and is not, with the first rank that has it otherwise than rank 0; nothing when all
// is.
std::optional<std::string> difference(std::span<const Json> facts);

// "rank 1: node2, AMD EPYC, level v3, 1 thread"
std::string text_of_rank(int rank, const Json& facts);

}  // namespace tandem::train
