// The data of a configuration, with the vocabularies of the weights it starts from where it asks for those
// (init_from.vocabulary).
#pragma once

#include <string>

#include "config/task.h"
#include "runs/weights.h"

namespace tandem::runs {

// The file of weights that init_from names (weights_at). Throws UserError when there is none.
std::string initial_weights(const config::Config& config);

// As config::open_data and config::describe_data. `words_of`: the description of the data whose vocabularies
// are taken, where any are; null: that in the weights that init_from names. Throws UserError as well where
// those say nothing of their data, or the task has no vocabulary.
tasks::DataPtr open_data(const config::Config& config, tasks::SampleReport report,
                         const config::Json& words_of = {});
tasks::DataPtr describe_data(const config::Config& config, const config::Json& words_of = {});

// The data that weights are of, recalled from its description; opened where they have none.
tasks::DataPtr data_of(const config::Config& config, const Weights& weights);

}  // namespace tandem::runs
