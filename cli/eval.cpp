#include <nlohmann/json.hpp>

#include "amp/autocast.h"
#include "cli/commands.h"
#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/safetensors.h"
#include "models/builder.h"
#include "runs/checkpoints.h"
#include "train/evaluate.h"
#include "train/setup.h"
#include "train/skipped_samples.h"

namespace tandem::cli {

namespace {

datasets::DatasetPtr split_of(const datasets::Splits& splits, const std::string& name) {
  if (name == "train") return splits.train;
  if (name == "test") return splits.test;
  require(splits.validation != nullptr, "",
          "there is no validation split; data.validation_size sets one aside");
  return splits.validation;
}

// Weights of a run know how many classes their data had.
void require_same_classes(const std::string& weights, const datasets::Splits& splits) {
  if (!safetensors::File(weights).metadata().contains("tandem.data")) return;
  const Index then = tasks::data_description(runs::saved_data(weights)).info.classes,
              now = splits.train->info().classes;
  require(then == now, "", "{}: were trained on data of {} classes, {} has {}", weights, then,
          splits.train->info().name, now);
}

}  // namespace

int eval(const EvalArguments& arguments) {
  const auto run = runs::RunDirectory::open(arguments.run);
  const config::Loaded loaded = config::load(run.config(), arguments.overrides);
  train::prepare_machine(loaded);
  const Device device = train::device_of(loaded.config);
  if (!arguments.weights.empty()) runs::weights_path(run, arguments.weights);  // before the data is read
  train::SkippedSamples skipped;
  const auto splits = train::open_data(loaded.config, skipped.reporter());
  // A run with a validation split ends with the test of its best weights, another one with that of its last.
  const std::string which = !arguments.weights.empty() ? arguments.weights
                            : splits.validation        ? "best"
                                                       : "last";
  const std::string weights = runs::weights_path(run, which);
  require_same_classes(weights, splits);
  auto pipeline = datasets::evaluation_pipeline(splits, train::augmentations(loaded.config));
  const Shape sample = pipeline.output_shape();
  const DType dtype = pipeline.output_dtype();
  datasets::Loader loader(split_of(splits, arguments.split), std::move(pipeline),
                          {.batch_size = *loaded.config.data.eval_batch_size, .device = device});
  const auto model = train::make_model(loaded, train::describe_data(splits), sample);
  runs::load_run_weights(run, which, *model);
  const auto task = tasks::make_task(loaded.config, models::output_shape(*model, sample, dtype));
  model->to(device);
  const amp::Precision precision =
      arguments.in_precision ? train::precision_of(loaded.config) : amp::Precision::fp32();
  const amp::Plan plan(precision, *model);
  const amp::Autocast autocast(plan);
  const auto evaluation = train::evaluate(*model, loader, *task, arguments.confusion);
  train::warn_of_skipped(skipped);
  if (which == "best" && arguments.split == "test" && !splits.validation)
    output::remark(
        "tandem: note: these weights were chosen on the test split, so their figure there is optimistic; "
        "data.validation_size sets samples aside to choose by\n");
  const runs::Metrics metrics = evaluation->metrics();
  const auto& class_names = splits.train->info().class_names;
  if (arguments.json) {
    nlohmann::ordered_json object{{"run", arguments.run},
                                  {"weights", weights},
                                  {"split", arguments.split},
                                  {"samples", loader.samples_per_epoch()},
                                  {"metrics", nlohmann::ordered_json::object()}};
    for (const auto& [name, value] : metrics) object["metrics"][name] = value;
    if (const auto* matrix = evaluation->confusion()) {
      object["classes"] = class_names;
      auto rows = nlohmann::ordered_json::array();
      for (Index row = 0; row < matrix->classes; ++row) {
        const auto first = matrix->counts.begin() + row * matrix->classes;
        rows.push_back(std::vector<std::int64_t>(first, first + matrix->classes));
      }
      object["confusion"] = rows;
    }
    output::print("{}\n", files::json_text(object));
    return 0;
  }
  output::print("{} ({} samples, {}): {}\n", arguments.split, loader.samples_per_epoch(), weights,
                train::metrics_text(metrics));
  if (const auto* matrix = evaluation->confusion()) output::print("{}", matrix->csv(class_names));
  return 0;
}

}  // namespace tandem::cli
