#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "autograd/modes.h"
#include "cli/commands.h"
#include "config/task.h"
#include "core/error.h"
#include "runs/run_data.h"
#include "train/setup.h"

namespace tandem::cli {

namespace {

// Refuses options that the run's task does not use.
void require_understood(const tasks::PredictRequest& request, const tasks::Task& task,
                        const std::string& name) {
  const std::vector<std::string> known = task.predict_options();
  const std::pair<const char*, bool> given[] = {
      {"inputs", !request.inputs.empty()},
      {"--top", request.top.has_value()},
      {"--logits", request.logits},
      {"--json", request.json},
      {"--out", !request.out.empty()},
      {"--count", request.count.has_value()},
      {"--seed", request.seed.has_value()},
      {"--prompt", request.prompt.has_value()},
      {"--question", !request.questions.empty()},
      {"--stop", request.stop.has_value()},
      {"--temperature", request.temperature.has_value()},
      {"--top-p", request.top_p.has_value()},
      {"--repetition-penalty", request.repetition_penalty.has_value()},
      {"--threshold", request.threshold.has_value()}};
  for (const auto& [option, is_given] : given)
    require(!is_given || std::ranges::find(known, option) != known.end(), "",
            "predict: task {} takes no {}; it takes {}", name, option, fmt::join(known, ", "));
}

}  // namespace

int predict(const PredictArguments& arguments) {
  const auto run = runs::RunDirectory::open(arguments.run);
  const config::Loaded loaded = config::load(run.config(), arguments.overrides);
  train::prepare_machine(loaded);
  if (!arguments.request.out.empty()) runs::require_no_file_of_run(arguments.request.out, "--out");
  const auto weights = runs::weights_of(run, arguments.weights.empty() ? "best" : arguments.weights);
  const auto task = config::make_task(loaded, runs::data_of(loaded.config, weights));
  require_understood(arguments.request, *task, loaded.config.task.name());
  runs::load_weights(weights.path, task->model());
  train::require_finite(task->model(), weights.path);
  const Device device = train::device_of(loaded.config);
  task->model().to(device);
  task->model().eval();
  task->predict(arguments.request, device);
  return 0;
}

}  // namespace tandem::cli
