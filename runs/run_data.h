// The data of a configuration as weights know it: its classes in their order, and the vocabularies of those
// that it starts from where it asks for these (init_from.vocabulary).
#pragma once

#include <string>
#include <vector>

#include "config/task.h"
#include "runs/weights.h"

namespace tandem::runs {

// The file of weights that init_from names (weights_at). Throws UserError when there is none.
std::string initial_weights(const config::Config& config);

// As config::open_data and config::describe_data. `like`: the description of the data whose order of classes
// is taken, and whose vocabularies, where any are; null: that in the weights that init_from names. `notes`
// gets what there is to say of it. Throws UserError as well where those weights say nothing of their data, or
// the task has no vocabulary.
tasks::DataPtr open_data(const config::Config& config, tasks::SampleReport report,
                         const config::Json& like = {}, std::vector<std::string>* notes = nullptr);
tasks::DataPtr describe_data(const config::Config& config, const config::Json& like = {});

// The data that weights are of, recalled from its description; opened where they have none.
tasks::DataPtr data_of(const config::Config& config, const Weights& weights);

}  // namespace tandem::runs
