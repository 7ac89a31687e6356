#include "autograd/modes.h"
#include "cli/commands.h"
#include "config/task.h"
#include "runs/checkpoints.h"
#include "train/setup.h"

namespace tandem::cli {

int predict(const PredictArguments& arguments) {
  const auto run = runs::RunDirectory::open(arguments.run);
  const config::Loaded loaded = config::load(run.config(), arguments.overrides);
  train::prepare_machine(loaded);
  const std::string which = arguments.weights.empty() ? "best" : arguments.weights;
  const auto task = config::make_task(
      loaded, config::recall_data(loaded.config, runs::saved_data(runs::weights_path(run, which))));
  runs::load_run_weights(run, which, task->model());
  const Device device = train::device_of(loaded.config);
  task->model().to(device);
  task->model().eval();
  task->predict({arguments.inputs, arguments.top, arguments.logits, arguments.json}, device);
  return 0;
}

}  // namespace tandem::cli
