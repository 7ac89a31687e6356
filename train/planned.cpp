#include "train/planned.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "amp/plan/plan_file.h"
#include "config/load.h"
#include "core/error.h"
#include "core/printable.h"
#include "files/input.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::train {

namespace {

constexpr Index kFewSamples = 2;  // the ops do not depend on the number of samples
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
constexpr std::string_view kMakeAgain = "make it again: tandem plan CONFIG";
constexpr std::size_t kShownName = 60;  // bytes of a phase's name

// Name of the plan in messages.
std::string name_of_plan(const config::Loaded& loaded) {
  const std::string& file = loaded.config.precision.plan.value();
  return file == kPlanAtStart ? "plan.json" : file;
}

// Losses with separate scales are computed one by one (StepRunner); a plan is for the forward of their sum.
void require_one_forward_each(const config::Loaded& loaded, const std::vector<tasks::Phase>& phases) {
  if (precision_of(loaded.config).scaler.scope != optim::ScalerScope::loss) return;
  for (const tasks::Phase& phase : phases)
    require(phase.losses == 1, "plan",
            "precision.scaler.scope: loss computes the {} losses of the {} separately, and a plan is for "
            "their sum; use global or optimizer",
            phase.losses, phase.name);
}

std::string phases_text(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(shortened(printable(name), kShownName));
  return fmt::format("{} {}", shown.size() == 1 ? "phase" : "phases", fmt::join(shown, ", "));
}

}  // namespace

std::string plan_text_of(const config::Loaded& loaded) {
  const auto& file = loaded.config.precision.plan;
  if (!file || !loaded.plan.empty()) return loaded.plan;
  require(*file != kPlanAtStart, "",
          "{}: precision.plan: auto works only in `tandem train`, which makes the plan when the run starts; "
          "give the file that `tandem plan` wrote",
          config::place_of(loaded.given, "precision.plan"));
  std::string text = files::read_text(*file, kMostBytes);
  require(!text.empty(), "", "{}: the plan is empty; make it again: tandem plan CONFIG", *file);
  return text;
}

void take_plan_of_run(config::Loaded& loaded, const runs::RunDirectory& run) {
  if (!loaded.config.precision.plan) return;
  loaded.plan = files::read_text_if_there(run.plan(), kMostBytes).value_or("");
}

std::shared_ptr<const amp::PlannedTypes> planned_types(const config::Loaded& loaded, const std::string& text,
                                                       nn::Module& model) {
  const std::string file = name_of_plan(loaded);
  return std::make_shared<const amp::PlannedTypes>(amp::plan::parse_plan(text, file), file,
                                                   precision_of(loaded.config), model);
}

std::optional<amp::plan::PrecisionPlan::Scale> planned_scale(const config::Loaded& loaded,
                                                             const tasks::DataPtr& data) {
  const std::string text = plan_text_of(loaded);
  if (text.empty()) return std::nullopt;
  const amp::plan::PrecisionPlan plan = amp::plan::parse_plan(text, name_of_plan(loaded)).front();
  return plan.shapes.batch == planned_batch(loaded, data) ? plan.scale : std::nullopt;
}

Index planned_batch(const config::Loaded& loaded, const tasks::DataPtr& data) {
  const Index batch = loaded.config.data.batch_size;
  return data->training_samples() > 0 ? std::min(batch, data->training_samples()) : batch;
}

std::vector<std::string> planned_phases(const config::Loaded& loaded, const tasks::DataPtr& data) {
  const auto task = config::make_task(loaded, data);
  const std::vector<tasks::Phase> phases = task->phases();
  require_one_forward_each(loaded, phases);
  std::vector<std::string> names;
  for (const tasks::Phase& phase : phases) names.push_back(phase.name);
  return names;
}

void with_forward(const config::Loaded& loaded, const tasks::DataPtr& data, std::size_t phase,
                  const std::function<void(nn::Module&, const std::function<Tensor()>&)>& use,
                  Index most_samples) {
  const auto task = config::make_task(loaded, data);
  require_one_forward_each(loaded, task->phases());
  nn::Module& model = task->model();
  freeze_parameters(loaded.config, model);
  Index size = planned_batch(loaded, data);
  if (most_samples > 0) size = std::min(size, most_samples);
  const datasets::Batch batch =
      task->synthetic_batch(size, static_cast<std::uint64_t>(loaded.config.seed), {});
  tasks::CarriedState carry;
  use(model, [&] {
    return loss_of_phase(*task, phase, batch, {.seed = static_cast<std::uint64_t>(loaded.config.seed)},
                         &carry);
  });
}

amp::TracedModel trace_of(const config::Loaded& loaded, const tasks::DataPtr& data, std::size_t phase,
                          Index most_samples) {
  amp::TracedModel traced;
  with_forward(
      loaded, data, phase,
      [&](nn::Module& model, const std::function<Tensor()>& forward) { traced = amp::trace(model, forward); },
      most_samples);
  return traced;
}

void require_own_plan(const config::Loaded& loaded, const tasks::DataPtr& data) {
  const std::string text = plan_text_of(loaded);
  if (text.empty()) return;
  const std::string file = name_of_plan(loaded);
  const amp::plan::PhasePlans plans = amp::plan::parse_plan(text, file);
  std::vector<std::string> named;
  for (const auto& plan : plans) named.push_back(plan.model.phase);
  const std::vector<std::string> phases = planned_phases(loaded, data);
  require(named == phases, "plan", "{} is for the {}, and a step of this task has the {}; {}", file,
          phases_text(named), phases_text(phases), kMakeAgain);
  for (std::size_t phase = 0; phase < plans.size(); ++phase) {
    const amp::TracedModel traced = trace_of(loaded, data, phase, kFewSamples);
    amp::plan::require_match(plans[phase], amp::plan::keys_of(traced.graph), file);
    require(plans[phase].model.digest == traced.model_digest(), "plan",
            "{}{} is for a model with the same ops but other layers or rules; {}", file,
            phase_suffix(plans[phase]), kMakeAgain);
  }
}

}  // namespace tandem::train
