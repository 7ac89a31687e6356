// The plan that a run follows (precision.plan): where it comes from, and whether it is of the run's model.
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

// The word for a plan that is made when a run starts.
inline constexpr const char* kPlanAtStart = "auto";

// What the plan's file holds: `loaded.plan`, or else the file is read. "" where precision.plan is not given.
// Throws UserError for a file that cannot be read, and for "auto" where nobody has made a plan.
std::string plan_text_of(const config::Loaded& loaded);

// Fills `loaded.plan` with the copy that a run keeps, where the configuration has a plan and the run a copy.
void take_plan_of_run(config::Loaded& loaded, const runs::RunDirectory& run);

// The plan for a model of the configuration's task. Throws UserError as plan::parse_plan and PlannedTypes.
std::shared_ptr<const amp::PlannedTypes> planned_types(const config::Loaded& loaded, const std::string& text,
                                                       nn::Module& model);

// The loss scale of the configuration's plan; absent without a plan, and where the plan has none or is of
// another batch size, by which gradients of a mean are larger or smaller.
std::optional<amp::plan::PrecisionPlan::Scale> planned_scale(const config::Loaded& loaded,
                                                             const tasks::DataPtr& data);

// Samples of a step: the configuration's batch, or all that there are.
Index planned_batch(const config::Loaded& loaded, const tasks::DataPtr& data);

// The names of the phases of a step, each of which is a forward that is planned by itself: that of the sum of
// its losses. Throws UserError where several losses of a phase have a loss scale each, and so no forward
// together.
std::vector<std::string> planned_phases(const config::Loaded& loaded, const tasks::DataPtr& data);

// Hands a model on the host to `use`, with the training forward of a phase on a made-up batch, which gives
// the loss: of so many samples at most, 0: a full one.
void with_forward(const config::Loaded& loaded, const tasks::DataPtr& data, std::size_t phase,
                  const std::function<void(nn::Module&, const std::function<Tensor()>&)>& use,
                  Index most_samples = 0);

// One training forward of a phase on a made-up batch on the host, traced: of so many samples at most, 0: a
// full one. Throws UserError as planned_phases.
amp::TracedModel trace_of(const config::Loaded& loaded, const tasks::DataPtr& data, std::size_t phase = 0,
                          Index most_samples = 0);

// Throws UserError, naming the first op that differs and its phase, unless the configuration's plan is of its
// model. Does nothing without a plan. With other shapes or on another machine a plan's prices are stale, and
// it applies.
void require_own_plan(const config::Loaded& loaded, const tasks::DataPtr& data);

}  // namespace tandem::train
