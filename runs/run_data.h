// The data of a configuration, with the vocabularies of the weights it starts from where it asks for those
// (init_from.vocabulary).
#pragma once

#include <string>

#include "config/task.h"

namespace tandem::runs {

// The file of weights that init_from names: a file, or the best weights of a run. Throws UserError when there
// is none.
std::string initial_weights(const config::Config& config);

// As config::open_data and config::describe_data. `weights`: whose vocabularies are taken, where any are; "":
// those that init_from names. Throws UserError as well where those weights say nothing of their data, or the
// task has no vocabulary.
tasks::DataPtr open_data(const config::Config& config, tasks::SampleReport report,
                         const std::string& weights = "");
tasks::DataPtr describe_data(const config::Config& config);

}  // namespace tandem::runs
