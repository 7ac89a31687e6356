// The model of a configuration's "model" section.
#pragma once

#include "config/load.h"
#include "models/registry.h"
#include "nn/module.h"

namespace tandem::tasks {

// Weights are drawn from the configuration's seed. Throws UserError naming the line of the option that is
// wrong.
nn::ModulePtr build_model(const config::Loaded& loaded, const models::DataInfo& data);

}  // namespace tandem::tasks
