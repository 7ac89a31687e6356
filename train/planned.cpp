#include "train/planned.h"

#include <algorithm>

#include "amp/plan/plan_file.h"
#include "config/load.h"
#include "core/error.h"
#include "files/input.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::train {

namespace {

constexpr Index kFewSamples = 2;  // ops are the same for any number
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

// What messages call it.
std::string name_of_plan(const config::Loaded& loaded) {
  const std::string& file = loaded.config.precision.plan.value();
  return file == kPlanAtStart ? "plan.json" : file;
}

void require_one_forward(tasks::Task& task) {
  const std::vector<tasks::Phase> phases = task.phases();
  require(
      phases.size() == 1 && phases.front().losses == 1, "plan",
      "a plan is of one forward, and a step of this task has {} phases{}; its precision is given by level, "
      "lists and layers",
      phases.size(), phases.size() == 1 ? fmt::format(" of {} losses", phases.front().losses) : "");
}

}  // namespace

std::string plan_text_of(const config::Loaded& loaded) {
  const auto& file = loaded.config.precision.plan;
  if (!file || !loaded.plan.empty()) return loaded.plan;
  require(*file != kPlanAtStart, "",
          "{}: precision.plan: auto is for `tandem train`, which makes the plan when the run starts; give "
          "the file "
          "that `tandem plan` wrote",
          config::place_of(loaded.given, "precision.plan"));
  std::string text = files::read_text(*file, kMostBytes);
  require(!text.empty(), "", "{}: is empty, and no plan; make it again: tandem plan CONFIG", *file);
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

void with_forward(const config::Loaded& loaded, const tasks::DataPtr& data,
                  const std::function<void(nn::Module&, const std::function<Tensor()>&)>& use,
                  Index most_samples) {
  const auto task = config::make_task(loaded, data);
  require_one_forward(*task);
  nn::Module& model = task->model();
  freeze_parameters(loaded.config, model);
  Index size = loaded.config.data.batch_size;
  if (data->training_samples() > 0) size = std::min(size, data->training_samples());
  if (most_samples > 0) size = std::min(size, most_samples);
  const datasets::Batch batch = task->made_up(size, static_cast<std::uint64_t>(loaded.config.seed), {});
  tasks::Carry carry;
  use(model, [&] {
    return loss_of_phase(*task, 0, batch, {.seed = static_cast<std::uint64_t>(loaded.config.seed)}, &carry);
  });
}

amp::TracedModel trace_of(const config::Loaded& loaded, const tasks::DataPtr& data, Index most_samples) {
  amp::TracedModel traced;
  with_forward(
      loaded, data,
      [&](nn::Module& model, const std::function<Tensor()>& forward) { traced = amp::trace(model, forward); },
      most_samples);
  return traced;
}

void require_own_plan(const config::Loaded& loaded, const tasks::DataPtr& data) {
  const std::string text = plan_text_of(loaded);
  if (text.empty()) return;
  const std::string file = name_of_plan(loaded);
  const amp::plan::PrecisionPlan plan = amp::plan::parse_plan(text, file);
  const amp::TracedModel traced = trace_of(loaded, data, kFewSamples);
  amp::plan::require_match(plan, amp::plan::keys_of(traced.graph), file);
  require(
      plan.model.digest == traced.model_digest(), "plan",
      "{} is of a model with the same ops whose layers or rules differ; make it again: tandem plan CONFIG",
      file);
}

}  // namespace tandem::train
