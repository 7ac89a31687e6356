// States of schedules that depend on evaluations, as JSON for checkpoints.
#pragma once

#include "config/config.h"
#include "optim/averaging_start.h"
#include "optim/plateau.h"

namespace tandem::runs {

config::Json to_json(const optim::PlateauState& state);
config::Json to_json(const optim::AveragingState& state);
// The inverse. Throws nlohmann::json::exception for another structure, UserError that names `file` for
// invalid values.
optim::PlateauState plateau_in(const config::Json& json, const std::string& file);
optim::AveragingState averaging_in(const config::Json& json, const std::string& file);

}  // namespace tandem::runs
