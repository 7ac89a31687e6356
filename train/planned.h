// The precision plan of a run (precision.plan): its file, and its match with the run's model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/planned_policy.h"
#include "amp/trace.h"
#include "config/task.h"
#include "runs/run_directory.h"
#include "tasks/task.h"

namespace tandem::train {

// Value of precision.plan for a plan that is made when a run starts.
inline constexpr const char* kPlanAtStart = "auto";

// Text of the plan: `loaded.plan`, or else the content of the file. "" without precision.plan. Throws
// UserError if the file cannot be read, and for "auto" if no plan was made.
std::string plan_text_of(const config::Loaded& loaded);

// Fills `loaded.plan` with the run's copy of the plan, if precision.plan is given and the copy exists.
void take_plan_of_run(config::Loaded& loaded, const runs::RunDirectory& run);

// The plan for a model of the configuration's task. Throws UserError as plan::parse_plan and PlannedTypes.
std::shared_ptr<const amp::PlannedTypes> planned_types(const config::Loaded& loaded, const std::string& text,
                                                       nn::Module& model);

// Loss scale of the plan. Absent without a plan, and if the plan has none or is for another batch size, since
// gradients of a mean loss scale with it.
std::optional<amp::plan::PrecisionPlan::Scale> planned_scale(const config::Loaded& loaded,
                                                             const tasks::DataPtr& data);

// Samples of a step: data.batch_size, or all samples if there are fewer.
Index planned_batch(const config::Loaded& loaded, const tasks::DataPtr& data);

// Names of the phases of a step. Each phase has its own plan, for the forward of the sum of its losses.
// Throws UserError if several losses of a phase have separate loss scales and so no common forward.
std::vector<std::string> planned_phases(const config::Loaded& loaded, const tasks::DataPtr& data);

// Calls `use` with a model on the host and the training forward of a phase, which returns the loss of a
// synthetic batch of at most `most_samples` samples (0: a full batch).
void with_forward(const config::Loaded& loaded, const tasks::DataPtr& data, std::size_t phase,
                  const std::function<void(nn::Module&, const std::function<Tensor()>&)>& use,
                  Index most_samples = 0);

// Trace of one such forward. Throws UserError as planned_phases.
amp::TracedModel trace_of(const config::Loaded& loaded, const tasks::DataPtr& data, std::size_t phase = 0,
                          Index most_samples = 0);

// Throws UserError with the first op that differs and its phase unless the plan is for this model. Does
// nothing without a plan. A plan also applies to other shapes and machines; only its prices are stale then.
void require_own_plan(const config::Loaded& loaded, const tasks::DataPtr& data);

}  // namespace tandem::train
