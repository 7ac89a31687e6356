#include "train/start_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/error.h"
#include "core/shapes_backend.h"
#include "data/loader.h"
#include "files/output.h"
#include "nn/device.h"
#include "train/step_runner.h"

namespace tandem::train {

namespace {

void require_best(const config::Loaded& loaded, const tasks::Task& task) {
  const std::string best = loaded.config.best(), split = task.validation_split();
  const auto undefined = task.undefined_figures(split);
  const auto found = undefined.find(best);
  if (found == undefined.end()) return;
  std::vector<std::string> defined;
  for (const auto& [name, kind] : config::metrics(loaded.config))
    if (!undefined.contains(name)) defined.push_back(name);
  throw UserError(
      "", fmt::format("{}: checkpoint.best: the {} split has no {}: {}; it has {}: use checkpoint.best={}",
                      config::place_of(loaded.given, "checkpoint.best"), split, best, found->second,
                      fmt::join(defined, ", "), defined.empty() ? "" : defined.back()));
}

// Error of a step on so many samples; absent if it works.
std::optional<std::string> refusal(tasks::Task& task, Index samples, std::int64_t seed) {
  try {
    const datasets::Batch batch = task.synthetic_batch(samples, 0, kShapes);
    for (std::size_t phase = 0; phase < task.phases().size(); ++phase)
      loss_of_phase(task, phase, batch, {.seed = static_cast<std::uint64_t>(seed)});
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

// A batch of n samples in p parts has parts of ⌊n/p⌋ and ⌊n/p⌋ + 1 samples.
Index least_part(Index samples, Index parts) { return std::max<Index>(samples / parts, 1); }

// Only models with batch statistics need a minimum number of samples.
void require_batches(const config::Loaded& loaded, tasks::Task& task, Index samples, Index parts) {
  if (task.model().statistics().empty()) return;
  const datasets::LoadingOptions& loading = loaded.config.data;
  if (loading.overfit_batches > 0) samples = std::min(samples, loading.overfit_batches * loading.batch_size);
  const Index batch = samples > 0 ? std::min(loading.batch_size, samples) : loading.batch_size;
  const Index last = loading.drop_last ? 0 : samples % batch;
  const auto in_parts = [&](Index of) {
    return parts == 1 ? ""
                      : fmt::format(", {} in the smallest of its {} parts", least_part(of, parts), parts);
  };
  if (const auto why = refusal(task, least_part(batch, parts), loaded.config.seed))
    throw UserError(
        "", fmt::format("{}: data.batch_size: a batch has {} samples{}, too few to train on: {}{}",
                        config::place_of(loaded.given, "data.batch_size"), batch, in_parts(batch), *why,
                        parts == 1 ? "" : "; or use fewer parallel.shards"));
  if (last == 0) return;
  if (const auto why = refusal(task, least_part(last, parts), loaded.config.seed))
    throw UserError(
        "",
        fmt::format("{}: data.drop_last: the last batch of an epoch has {} of the {} samples{}, too few to "
                    "train on: {}; set data.drop_last=true to leave it out",
                    config::place_of(loaded.given, "data.drop_last"), last, samples, in_parts(last), *why));
}

}  // namespace

void check_start(const config::Loaded& loaded, const tasks::DataPtr& data, Index parts) {
  const nn::BuildDevice building(kShapes);
  const auto task = config::make_task(loaded, data);
  require_best(loaded, *task);
  if (task->keeps_details()) task->evaluation(true);
  require_batches(loaded, *task, data->training_samples(), parts);
}

void read_everything(const tasks::Data& data, bool tells) {
  Index bad = 0;
  data.read_all([&](const std::string& reason) {
    ++bad;
    if (tells) output::print_error(reason);
  });
  require(bad == 0, "", "{} of the data cannot be read; repair or remove {}",
          bad == 1 ? "one sample" : fmt::format("{} samples", bad), bad == 1 ? "it" : "them");
}

std::vector<amp::LintLine> lint_of(tasks::Task& task, const amp::ResolvedPrecision& precision,
                                   const config::Config& config, Device device) {
  constexpr Index kShareOfBatch = 8, kFewest = 2;
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
