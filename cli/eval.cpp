#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "cli/commands.h"
#include "config/task.h"
#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "models/weights.h"
#include "report/breakdown.h"
#include "report/table.h"
#include "runs/run_data.h"
#include "tasks/skipped_samples.h"
#include "train/evaluate.h"
#include "train/planned.h"
#include "train/setup.h"

namespace tandem::cli {

namespace {

void write_artifacts(const tasks::Evaluation& evaluation, const std::filesystem::path& folder) {
  for (const tasks::Artifact& artifact : evaluation.artifacts()) {
    const std::filesystem::path path = folder / artifact.file;
    files::make_folder(path.parent_path());
    files::write_atomically(path.string(), artifact.contents);
  }
}

void print_breakdown(const tasks::Breakdown& breakdown) {
  const auto rows = report::breakdown_rows(breakdown);
  report::Table table(rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) table.add(rows[i]);
  table.print();
}

}  // namespace

int eval(const EvalArguments& arguments) {
  const auto run = runs::RunDirectory::open(arguments.run);
  config::Loaded loaded = config::load(run.config(), arguments.overrides);
  train::take_plan_of_run(loaded, run);
  train::prepare_machine(loaded);
  const Device device = train::device_of(loaded.config);
  if (!arguments.out.empty()) runs::require_no_file_of_run(arguments.out, "--out");
  // Reads weights before the data; all weights of a run have the same vocabulary and class order.
  runs::Weights weights = runs::weights_of(run, arguments.weights.empty() ? "last" : arguments.weights);
  tasks::SkippedSamples skipped;
  std::vector<std::string> notes;
  const tasks::DataPtr data = runs::open_data(loaded.config, skipped.reporter(), weights.data, &notes);
  for (const std::string& note : notes) output::remark("tandem: note: {}\n", note);
  const auto task = config::make_task(loaded, data);
  const bool validates = task->validation_split() == "validation";
  // A run with a validation split ends with a test of its best weights, others with a test of the last.
  const std::string which = !arguments.weights.empty() ? arguments.weights : validates ? "best" : "last";
  if (arguments.weights.empty()) weights = runs::weights_of(run, which);
  if (!weights.data.is_null()) data->require_like(weights.data, weights.path);
  datasets::Loader loader(task->evaluation_source(arguments.split, device));
  runs::load_weights(weights.path, task->model());
  if (const auto bad = models::non_finite_weights(task->model()))
    output::print_error(fmt::format("warning: {}: {}; the run that saved it diverged", weights.path, *bad));
  task->model().to(device);
  const auto precision = arguments.in_precision
                             ? train::resolve_precision(loaded, task->model())
                             : std::make_unique<amp::ResolvedPrecision>(amp::Precision::fp32());
  const amp::Autocast autocast(*precision);
  const bool details = arguments.confusion || !arguments.out.empty();
  const auto evaluation = train::evaluate(*task, loader, details);
  tasks::warn_of_skipped(skipped);
  if (which == "best" && arguments.split == "test" && !validates)
    output::remark(
        "tandem: note: these weights were chosen on the test split, so their metrics there are optimistic; "
        "set data.validation_size to choose on held-out samples\n");
  if (!arguments.out.empty()) write_artifacts(*evaluation, arguments.out);
  const auto breakdown = arguments.breakdown ? evaluation->breakdown() : std::nullopt;
  require(!arguments.breakdown || breakdown, "", "eval: --by-class: the task has no metrics of each class");
  const tasks::Metrics metrics = evaluation->metrics();
  if (arguments.json) {
    nlohmann::ordered_json object{{"run", arguments.run},
                                  {"weights", weights.path},
                                  {"split", arguments.split},
                                  {"samples", loader.samples_per_epoch()},
                                  {"metrics", nlohmann::ordered_json::object()}};
    for (const auto& [name, value] : metrics) object["metrics"][name] = value;
    object.update(evaluation->details());
    if (breakdown) object["by_class"] = tasks::to_json(*breakdown);
    output::print("{}\n", files::json_text(object));
    return 0;
  }
  output::print("{} ({} samples, {}): {}\n", arguments.split, loader.samples_per_epoch(), weights.path,
                train::metrics_text(metrics));
  if (breakdown) print_breakdown(*breakdown);
  for (const tasks::Artifact& artifact : evaluation->artifacts())
    if (arguments.confusion && !artifact.kept) output::print("{}", artifact.contents);
  return 0;
}

}  // namespace tandem::cli
