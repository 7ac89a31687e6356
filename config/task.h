// The task of a configuration, from its data on. Errors name the line of the configuration.
#pragma once

#include <memory>

#include "config/load.h"
#include "tasks/registry.h"

namespace tandem::config {

// What evaluations of the task say.
const tasks::MetricKinds& metrics(const Config& config);
// Reads what the configuration names. Throws UserError for what is missing or wrong. Here and below the
// vocabularies are those of `words_of`, a description saved with weights, where there is one; runs/run_data.h
// finds the one that init_from means.
tasks::DataPtr open_data(const Config& config, tasks::SampleReport report,
                         std::shared_ptr<const Json> words_of = {});
// The same without reading, where that is possible; else by opening it.
tasks::DataPtr describe_data(const Config& config, std::shared_ptr<const Json> words_of = {});
// From the description saved with weights. Throws UserError when it is damaged.
tasks::DataPtr recall_data(const Config& config, const Json& description);
// With a model whose weights are drawn from the seed.
std::unique_ptr<tasks::Task> make_task(const Loaded& loaded, tasks::DataPtr data);

}  // namespace tandem::config
