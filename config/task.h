// The task of a configuration and its data. Errors name the line of the configuration.
#pragma once

#include <memory>

#include "config/load.h"
#include "tasks/registry.h"

namespace tandem::config {

// Kinds of the task's metrics.
const tasks::MetricKinds& metrics(const Config& config);
// Reads the configured data. Throws UserError if it is missing or invalid. Here and below, `words_of` is a
// description saved with weights whose vocabularies are used (see runs/run_data.h); null: none.
tasks::DataPtr open_data(const Config& config, tasks::SampleReport report,
                         std::shared_ptr<const Json> words_of = {});
// The same without reading, if possible.
tasks::DataPtr describe_data(const Config& config, std::shared_ptr<const Json> words_of = {});
// The data from a description saved with weights. Throws UserError if it is damaged.
tasks::DataPtr recall_data(const Config& config, const Json& description);
// The task, with a model initialised from the seed.
std::unique_ptr<tasks::Task> make_task(const Loaded& loaded, tasks::DataPtr data);

}  // namespace tandem::config
