// From a checked configuration to the objects that train beside the task: device, weights, precision,
// optimizer, schedule.
#pragma once

#include <memory>
#include <string>

#include "amp/autocast.h"
#include "config/load.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "optim/schedules.h"
#include "optim/step.h"
#include "parallel/communicator.h"
#include "tasks/task.h"
#include "train/step_runner.h"

namespace tandem::train {

// Sets the threads: at most the CPUs the process may use, saying so where more are asked for. Where nothing
// is said, all of them.
void prepare_machine(const config::Loaded& loaded);
// Where nothing is said of threads: a part of them, as many as there are ranks that may use the same CPUs. A
// call of all ranks.
void share_cpus(parallel::Communicator& ranks, double deadline_s);

// Where the configuration computes; sets the rules of a GPU. Of the ranks of a host each has a GPU of its
// own, in turn. Throws VendorError with the reason when a GPU is asked for and there is none.
Device device_of(const config::Config& config);
GraphUse graph_use(const config::Config& config);

// Freezes what `init_from.freeze` names; how many parameters. Throws UserError when it names none.
int freeze_parameters(const config::Config& config, nn::Module& model);
// Everything of `init_from`: loads, tables of words by word (train/word_rows.h), and freezes. Returns what to
// tell the user, one fact a line. Throws UserError when no parameter fits, and, unless it is not strict, for
// weights of other classes.
std::vector<std::string> initialise_from(const config::Config& config, tasks::Task& task);
// Throws UserError, which begins with `weights`, where the model holds a value that is not finite: answers
// and losses would be made up of those.
void require_finite(nn::Module& model, const std::string& weights);

amp::Precision precision_of(const config::Config& config);
// The same, looked up for the model; where there is a plan, what it says (train/planned.h). Throws UserError
// with the place of rules that match none of its layers.
std::unique_ptr<amp::ResolvedPrecision> resolve_precision(const config::Loaded& loaded, nn::Module& model);
// What a user should know of the CPU's kernels, in one line; "" where they are the best that it has, or do
// not matter.
std::string level_note(Device device);
// And of that precision on the device.
std::string precision_note(const config::Config& config, Device device);
// Of an optimizer with that learning rate.
optim::Schedule make_schedule(const config::Config& config, double lr, std::int64_t steps_per_epoch,
                              std::int64_t total_steps);
// All but the schedule.
optim::StepOptions step_options(const config::Config& config);

}  // namespace tandem::train
