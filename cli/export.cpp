#include "export/export.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "config/task.h"
#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "runs/run_data.h"
#include "train/setup.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

// Default output file, named after the requested weights: RUN/exports/best.onnx.
std::string standard_path(const runs::RunDirectory& run, const std::string& weights, const char* format) {
  const fs::path folder = run.path() / "exports";
  files::make_folder(folder);
  return folder / (fs::path(weights).stem().string() + "." + format);
}

// The file of a part: model.onnx or model → model.encoder.onnx.
std::string path_of_part(const std::string& path, const std::string& part) {
  const std::string_view end = ".onnx";
  return (path.ends_with(end) ? path.substr(0, path.size() - end.size()) : path) + "." + part + ".onnx";
}

}  // namespace

int export_weights(const ExportArguments& arguments) {
  const exporting::Format format = exporting::format_from_name(arguments.format);
  const auto run = runs::RunDirectory::open(arguments.run);
  const config::Loaded loaded = config::load(run.config(), arguments.overrides);
  train::prepare_machine(loaded);
  const std::string which = arguments.weights.empty() ? "best" : arguments.weights;
  const runs::Weights weights = runs::weights_of(run, which);
  std::error_code absent;
  if (!arguments.out.empty()) {
    runs::require_no_file_of_run(arguments.out, "--out");
    require(fs::path(arguments.out).has_filename() && !fs::is_directory(arguments.out, absent), "",
            "export: --out {} is a folder; name a file", arguments.out);
  }
  const auto task = config::make_task(loaded, runs::data_of(loaded.config, weights));
  runs::load_weights(weights.path, task->model());
  train::require_finite(task->model(), weights.path);
  const tasks::Signature called = task->signatures().front();
  require(format != exporting::Format::onnx || called.no_graph.empty(), "",
          "export: {} cannot be written as onnx: {}; safetensors and npz contain its weights", arguments.run,
          called.no_graph);
  require(arguments.opset == 17 || format == exporting::Format::onnx, "",
          "export: --opset works only with --format onnx");
  require(!arguments.suppress || (format == exporting::Format::onnx && called.suppression), "",
          "export: --suppress works only for detectors, with --format onnx");
  const exporting::ExportRequest request{
      .format = format,
      .path = arguments.out.empty() ? standard_path(run, which, name_of(format)) : arguments.out,
      .sample = called.sample,
      .dtype = called.dtype,
      .opset = arguments.opset,
      .input = called.input,
      .outputs = called.outputs,
      .metadata = task->export_metadata(),
      .graph = called.graph,
      .suppression = arguments.suppress ? called.suppression : std::nullopt};
  std::vector<exporting::ExportRequest> requests{request};
  if (format == exporting::Format::onnx && !called.parts.empty()) {
    requests.clear();
    for (const nn::Part& part : called.parts) {
      requests.push_back(request);
      requests.back().part = part;
      requests.back().path = path_of_part(request.path, part.name);
    }
  }
  std::vector<std::string> written;
  for (const exporting::ExportRequest& each : requests) {
    require(!fs::equivalent(each.path, weights.path, absent), "",
            "--out {}: is the file of the exported weights; choose another name", each.path);
    written.push_back(each.path);
  }
  exporting::write_exports(*called.module, requests);
  std::uintmax_t bytes = 0;
  for (const std::string& path : written) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (!error) bytes += size;
  }
  if (arguments.json) {
    nlohmann::ordered_json result{
        {"file", written.front()},    {"files", written},
        {"format", arguments.format}, {"parameters", called.module->parameter_count()},
        {"weights", weights.path},    {"bytes", bytes}};
    output::print("{}\n", files::json_text(result));
    return 0;
  }
  output::print("{}: {} parameters of {}, {:.1f} MB\n", fmt::join(written, ", "),
                called.module->parameter_count(), weights.path, static_cast<double>(bytes) / 1e6);
  return 0;
}

}  // namespace tandem::cli
