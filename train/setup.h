// Setup: makes the objects that training needs besides the task from a checked configuration: device,
// weights, precision, optimizer, schedule.
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

// Sets the number of threads, at most the number of CPUs that the process may use, with a remark if the
// configuration asks for more. Default: all of these CPUs.
void prepare_machine(const config::Loaded& loaded);
// Without a number of threads in the configuration: divides the CPUs among ranks that may use the same ones.
// Collective.
void share_cpus(parallel::Communicator& ranks, double deadline_s);

// Device of the configuration; sets the rules of a GPU. Ranks of a host use its GPUs in turn. Throws
// VendorError with the reason if a GPU is requested and there is none.
Device device_of(const config::Config& config);
GraphUse graph_use(const config::Config& config);

// Freezes the parameters that match `init_from.freeze`; returns their number. Throws UserError if none match.
int freeze_parameters(const config::Config& config, nn::Module& model);
// Applies `init_from`: loads weights, word tables word by word (train/word_rows.h), and freezes. Returns
// notes for the user. Throws UserError if no parameter fits, and, if strict, for weights with other classes.
std::vector<std::string> initialise_from(const config::Config& config, tasks::Task& task);
// Throws UserError that starts with `weights` if the model holds a non-finite value.
void require_finite(nn::Module& model, const std::string& weights);

amp::Precision precision_of(const config::Config& config);
// The same, resolved for the model, or by its plan (train/planned.h). Throws UserError with the place of
// precision rules that match no layer.
std::unique_ptr<amp::ResolvedPrecision> resolve_precision(const config::Loaded& loaded, nn::Module& model);
// Note about the level of the CPU kernels; "" if it is the best of this CPU, or irrelevant.
std::string level_note(Device device);
// Note about the speed of that precision on the device, or "".
std::string precision_note(const config::Config& config, Device device);
// Schedule of an optimizer with learning rate `lr`.
optim::Schedule make_schedule(const config::Config& config, double lr, std::int64_t steps_per_epoch,
                              std::int64_t total_steps);
// Without the schedule.
optim::StepOptions step_options(const config::Config& config);

}  // namespace tandem::train
