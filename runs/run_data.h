// Data of a configuration, with the class order of existing weights and, if init_from.vocabulary asks for
// them, the vocabularies of the initial weights.
#pragma once

#include <string>
#include <vector>

#include "config/task.h"
#include "runs/weights.h"

namespace tandem::runs {

// The weight file that init_from names (weights_at). Throws UserError if there is none.
std::string initial_weights(const config::Config& config);

// As config::open_data and config::describe_data. `like`: description of the data whose class order and
// vocabularies are used; null: that in the initial weights. `notes` gets notes for the user. Also throws
// UserError if init_from.vocabulary is given and these weights have no description of their data, or the task
// has no vocabulary.
tasks::DataPtr open_data(const config::Config& config, tasks::SampleReport report,
                         const config::Json& like = {}, std::vector<std::string>* notes = nullptr);
tasks::DataPtr describe_data(const config::Config& config, const config::Json& like = {});

// The data of weights, recalled from their description, or opened if they have none.
tasks::DataPtr data_of(const config::Config& config, const Weights& weights);

}  // namespace tandem::runs
