// The task of a configuration, from its data on. Errors name the line of the configuration.
#pragma once

#include <memory>

#include "config/load.h"
#include "tasks/registry.h"

namespace tandem::config {

// What evaluations of the task say.
const tasks::MetricKinds& metrics(const Config& config);
// Reads what the configuration names. Throws UserError for what is missing or wrong.
tasks::DataPtr open_data(const Config& config, tasks::SampleReport report);
// The same without reading, where that is possible; else by opening it.
tasks::DataPtr describe_data(const Config& config);
// From the description saved with weights. Throws UserError when it is damaged.
tasks::DataPtr recall_data(const Config& config, const Json& description);
// With a model whose weights are drawn from the seed.
std::unique_ptr<tasks::Task> make_task(const Loaded& loaded, tasks::DataPtr data);

}  // namespace tandem::config
