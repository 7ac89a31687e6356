#include "train/start_lint.h"

#include <algorithm>
#include <functional>

#include "core/backend.h"
#include "core/error.h"
#include "data/loader.h"
#include "train/step_runner.h"

namespace tandem::train {

namespace {

constexpr Index kShareOfBatch = 8, kFewest = 2;

}  // namespace

std::vector<amp::LintLine> lint_of(tasks::Task& task, const amp::ResolvedPrecision& precision,
                                   const config::Config& config, Device device) {
  const Index whole = config.data.batch_size;
  const Index samples = std::min(whole, std::max(kFewest, whole / kShareOfBatch));
  std::vector<amp::LintLine> lines;
  try {
    datasets::Loader loader(task.training_source(device, samples));
    const auto batch = loader.next();
    if (!batch || batch->samples == 0) return lines;
    std::vector<std::function<Tensor()>> phases;
    for (std::size_t phase = 0; phase < task.phases().size(); ++phase)
      phases.emplace_back([&task, &config, &batch, phase] {
        return loss_of_phase(task, phase, *batch, {.seed = static_cast<std::uint64_t>(config.seed)});
      });
    lines = amp::lint(task.model(), precision, phases);
  } catch (const UserError&) {
    lines.clear();
  }
  backend_for(device).reset_peak_memory();  // the run reports the peak of its own steps
  return lines;
}

}  // namespace tandem::train
