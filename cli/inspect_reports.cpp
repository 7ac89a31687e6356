#include "cli/inspect_reports.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/task.h"
#include "core/error.h"
#include "core/units.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/output.h"
#include "report/table.h"
#include "runs/run_data.h"
#include "runs/run_directory.h"
#include "studies/inspect/headroom.h"
#include "studies/plan/blame.h"
#include "train/calibrate.h"
#include "train/planned.h"
#include "train/setup.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const inspect::LayerHeadroom& layer) {
  Json json{{"name", layer.name}, {"bits", nullptr}, {"flushed", layer.flushed}};
  if (layer.bits) json["bits"] = *layer.bits;
  return json;
}

// "0.31", "< 0.01", or "" for 0.
std::string flushed_text(double share) {
  if (share == 0.0) return "";
  return share < 1e-4 ? "< 0.01" : fmt::format("{:.2f}", 100.0 * share);
}

void print_headroom(const inspect::HeadroomReport& report) {
  report::Table table({"layer", "bits left", "flushed, %"});
  table.right_from(1);
  const auto add = [&](const inspect::LayerHeadroom& layer) {
    table.add({layer.name, layer.bits ? fmt::format("{}", *layer.bits) : "", flushed_text(layer.flushed)});
  };
  for (const inspect::LayerHeadroom& layer : report.layers) add(layer);
  add(report.all);
  table.print();
  output::print(
      "\nbits left: doublings of the scale until a gradient overflows FP16; 0 to 1 while a dynamic scale "
      "probes, 2 or more at the scale of a plan\n");
}

// The segments of the loss scale of a run, if it has any.
std::vector<amp::SegmentedLossScale::Segment> segments_of(const config::Loaded& loaded,
                                                          const std::string& subject) {
  if (loaded.config.precision.scaler.mode != "segments" || !runs::RunDirectory::is_run(subject)) return {};
  const std::string file = runs::RunDirectory::open(subject).calibration();
  return train::segments_in(files::read_text_if_there(file).value_or("{}"), file);
}

// Suffix of the loss scale, which is that of the first segment.
std::string beside(std::size_t segments) {
  return segments > 1 ? fmt::format(" and those of {} segments beside it", segments) : "";
}

// A share as a percentage. Adding 0.0 removes the sign of a negative zero.
std::string share_text(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f}", std::round(1000.0 * share) / 10.0 + 0.0) : "–";
}

}  // namespace

int inspect_headroom(const InspectArguments& arguments) {
  const config::Loaded loaded = inspected_config(arguments);
  train::prepare_machine(loaded);
  const runs::Weights weights = inspected_weights(arguments);
  train::Workbench bench(loaded, weights);
  const std::int64_t batches = arguments.batches.value_or(4);
  const auto segments = segments_of(loaded, arguments.subject);
  const amp::SegmentedLossScale borders(bench.model(), segments);
  const inspect::HeadroomReport report =
      inspect::headroom(inspect::report_gradients(bench, batches, segments.empty() ? nullptr : &borders),
                        inspect::log2_scale_of(loaded, weights));
  if (arguments.json) {
    Json layers = Json::array();
    for (const auto& layer : report.layers) layers.push_back(to_json(layer));
    output::print("{}\n", files::json_text(Json{{"batches", batches},
                                                {"log2_scale", report.log2_scale},
                                                {"all", to_json(report.all)},
                                                {"layers", layers}}));
    return 0;
  }
  for (const std::string& note : bench.notes()) output::print("{}\n", note);
  output::print("activation gradients of {} batches of {}, in FP32, at loss scale 2^{}{}\n\n", batches,
                loaded.config.data.batch_size, report.log2_scale, beside(segments.size()));
  print_headroom(report);
  const auto narrow = report.narrow();
  if (!narrow.empty())
    output::print(
        "less than one bit is left in {}: gradients overflow there at the next doubling, or already\n",
        fmt::join(narrow, ", "));
  return 0;
}

namespace {

Json blame_json(const planning::Blame& blame, std::size_t segments) {
  Json ops = Json::array();
  for (const auto& op : blame.ops)
    ops.push_back({{"path", op.key.path},
                   {"op", op.key.op},
                   {"call", op.key.call},
                   {"local", op.local},
                   {"share", op.share},
                   {"cause", name_of(op.cause)}});
  return {{"batches", blame.batches},
          {"scale", blame.scale},
          {"segments", std::max<std::size_t>(segments, 1)},
          {"error", blame.error},
          {"noise", blame.noise},
          {"runs", blame.runs},
          {"ops", ops}};
}

void print_blame(const std::string& of, const config::Config& config, const planning::Blame& blame,
                 std::size_t segments) {
  output::print(
      "{}: error of the gradient {}, or {} if all weights move by one unit in the last place; loss scale "
      "{:g}{}, {} of {}, {} steps\n\n",
      of, figure_text(blame.error, 3), figure_text(blame.noise, 3), blame.scale, beside(segments),
      blame.batches == 1 ? "one batch" : fmt::format("{} batches", blame.batches), config.data.batch_size,
      blame.runs);
  report::Table table({"op", "share, %", "own error", "cause"});
  table.right_from(1);
  for (const auto& op : blame.ops)
    table.add({to_string(op.key), share_text(op.share), figure_text(op.local, 2), name_of(op.cause)});
  table.print();
  output::print("\n");
}

}  // namespace

int inspect_blame(const InspectArguments& arguments) {
  const config::Loaded loaded = inspected_config(arguments);
  train::prepare_machine(loaded);
  const runs::Weights weights = inspected_weights(arguments);
  const auto segments = segments_of(loaded, arguments.subject);
  const double scale = std::exp2(inspect::log2_scale_of(loaded, weights));
  const std::vector<std::string> phases =
      train::planned_phases(loaded, runs::describe_data(loaded.config, weights.data));
  const bool one = phases.size() == 1;
  Json all = Json::array();
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    const planning::Blame blame = planning::blame(
        loaded, weights, static_cast<int>(arguments.batches.value_or(1)), scale, phase, segments);
    if (arguments.json) {
      all.push_back(blame_json(blame, segments.size()));
      if (!one) all.back()["phase"] = phases[phase];
      continue;
    }
    const std::string label = loaded.config.precision.label();
    print_blame(one ? label : fmt::format("{}, {}", phases[phase], label), loaded.config, blame,
                segments.size());
  }
  if (arguments.json) {
    output::print("{}\n", files::json_text(one ? all.front() : Json{{"phases", all}}));
    return 0;
  }
  output::print(
      "share: of the squared error that vanishes when only this op runs in FP32; own error: of its result "
      "for the same FP32 inputs.\nOut of range: use BF16, or FP32 by precision.layers; flushed: use a "
      "greater loss scale; rounding: use FP32 for the result, then for the operands\n");
  return 0;
}

}  // namespace tandem::cli
