// `tandem inspect`: tensors and training state of a run or file, dtypes and casts of every op, exponents of
// gradients.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/advice.h"
#include "cli/commands.h"
#include "cli/inspect_reports.h"
#include "config/precision.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/units.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/safetensors.h"
#include "files/write.h"
#include "models/advice.h"
#include "report/table.h"
#include "runs/checkpoints.h"
#include "runs/run_directory.h"
#include "studies/inspect/casts.h"
#include "studies/inspect/gradients.h"
#include "train/planned.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string bytes(std::int64_t count) { return bytes_text(static_cast<double>(count)); }
double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

void print_notes(const train::Workbench& bench) {
  for (const std::string& note : bench.notes()) output::print("{}\n", note);
}

// ---- --casts

Json to_json(const inspect::CastReport& report, const std::vector<inspect::PrecisionMemory>& memory) {
  Json rows = Json::array();
  for (const inspect::CastRow& row : report.rows)
    rows.push_back({{"layer", row.layer},
                    {"op", row.op},
                    {"reason", row.reason},
                    {"inputs", row.inputs},
                    {"output", row.output},
                    {"calls", row.calls},
                    {"casts", row.casts},
                    {"cast_bytes", row.cast_bytes},
                    {"output_bytes", row.output_bytes},
                    {"flop", row.flop}});
  Json memories = Json::array();
  for (const auto& m : memory)
    memories.push_back({{"precision", m.name},
                        {"masters", m.masters},
                        {"weights", m.working},
                        {"gradients", m.gradients},
                        {"optimizer", m.optimizer},
                        {"activations", m.activations},
                        {"workspace", m.workspace},
                        {"peak", m.peak}});
  return {{"rows", rows},
          {"casts", report.casts},
          {"cast_bytes", report.cast_bytes},
          {"backward_casts", report.backward_casts},
          {"working_copies", report.working_copies},
          {"working_copy_bytes", report.working_copy_bytes},
          {"flop", report.flop},
          {"lowered_flop", report.lowered_flop},
          {"output_bytes", report.output_bytes},
          {"lowered_output_bytes", report.lowered_output_bytes},
          {"memory", memories}};
}

void print_memory(const std::vector<inspect::PrecisionMemory>& memory) {
  report::Table table(
      {"memory", "masters", "weights", "gradients", "optimizer", "activations", "workspace", "peak"});
  for (const auto& m : memory) {
    const auto size = [](std::size_t count) { return bytes_text(static_cast<double>(count)); };
    table.add({m.name, size(m.masters), size(m.working), size(m.gradients), size(m.optimizer),
               size(m.activations), size(m.workspace), size(m.peak)});
  }
  table.print();
  output::print("weights: 16-bit working copies, packed filters and statistics; peak of two steps\n");
}

int casts(const InspectArguments& arguments) {
  const config::Loaded loaded = inspected_config(arguments);
  train::prepare_machine(loaded);
  const runs::Weights weights = inspected_weights(arguments);
  const amp::Precision precision = config::precision_of(loaded.config.precision);
  train::Workbench bench(loaded, weights);
  const datasets::Batch batch = bench.next_batch();
  const inspect::CastReport report = inspect::report_casts(bench, precision, batch);
  const std::string label = loaded.config.precision.label();
  std::vector<inspect::PrecisionMemory> memory{
      inspect::measure_memory(loaded, weights, "fp32", amp::Precision::fp32())};
  if (precision.lowers()) memory.push_back(inspect::measure_memory(loaded, weights, label, precision));
  if (arguments.json) {
    output::print("{}\n", files::json_text(to_json(report, memory)));
    return 0;
  }
  print_notes(bench);
  output::print("one batch of {}, {}\n\n", batch.samples, label);
  report::Table table(
      {"layer", "op", "decided by", "inputs", "output", "calls", "casts", "cast bytes", "output bytes"});
  table.right_from(5);
  for (const inspect::CastRow& row : report.rows)
    table.add({row.layer, row.op, row.reason, row.inputs, row.output, fmt::format("{}", row.calls),
               row.casts > 0 ? fmt::format("{}", row.casts) : "",
               row.cast_bytes > 0 ? bytes(row.cast_bytes) : "", bytes(row.output_bytes)});
  table.print();
  output::print(
      "\n{} casts in forward ({}), {} in backward; {} working copies of parameters ({}, marked *), written "
      "once per step by the update\n",
      report.casts, bytes(report.cast_bytes), report.backward_casts, report.working_copies,
      bytes(report.working_copy_bytes));
  output::print("in 16 bits: {:.1f} % of the FLOP of products, {:.1f} % of the bytes that ops write\n\n",
                percent(report.lowered_flop, report.flop),
                percent(report.lowered_output_bytes, report.output_bytes));
  print_memory(memory);
  output::print("\n");
  const auto summary = summarised(bench.task(), std::min<Index>(batch.samples, 16));
  print_advice(summary, batch.samples, models::product_share(summary, [&](const models::OpTime& time) {
                 return inspect::ran_in_16_bits(report, time.layer, time.op->name);
               }));
  return 0;
}

// ---- --gradients

constexpr int kScales[] = {0, 3, 6, 10, 15, 16};

Json to_json(const amp::ExponentHistogram& histogram) {
  Json counts = Json::object();
  if (histogram.lowest())
    for (int e = *histogram.lowest(); e <= *histogram.highest(); ++e)
      counts[std::to_string(e)] = histogram.count(e);
  Json flushed = Json::object(), overflowed = Json::object();
  for (const int k : kScales) {
    const std::string scale = fmt::format("{}", std::exp2(k));
    flushed[scale] = histogram.flushed(k);
    overflowed[scale] = histogram.overflowed(k);
  }
  Json result{
      {"total", histogram.total()}, {"zeros", histogram.zeros()}, {"non_finite", histogram.non_finite()},
      {"exponents", counts},        {"flushed", flushed},         {"overflowed", overflowed},
      {"saving_scale", nullptr}};
  if (const auto k = histogram.saving_scale()) result["saving_scale"] = std::exp2(*k);
  return result;
}

Json to_json(const inspect::LayerGradients& layer) {
  return {{"name", layer.name},
          {"activations", to_json(layer.activations)},
          {"weights", to_json(layer.weights)},
          {"measured_zeros", layer.measured.zeros()},
          {"measured_total", layer.measured.total()}};
}

std::vector<std::string> cells(const std::string& name, const char* what, const amp::ExponentHistogram& h) {
  std::vector<std::string> row{name, what, fmt::format("|{}|", inspect::sparkline(h, -48, 15)),
                               fmt::format("{:.1f}", percent(h.zeros(), h.total()))};
  for (const int k : kScales)
    row.push_back(fmt::format("{:.1f}{}", percent(h.flushed(k), h.total()), h.overflowed(k) > 0 ? "!" : ""));
  const auto saving = h.saving_scale();
  row.push_back(!saving         ? "none"
                : *saving <= 10 ? fmt::format("{:g}", std::exp2(*saving))
                                : fmt::format("2^{}", *saving));
  return row;
}

int gradients(const InspectArguments& arguments) {
  const config::Loaded loaded = inspected_config(arguments);
  train::prepare_machine(loaded);
  if (!arguments.out.empty()) runs::require_no_file_of_run(arguments.out, "--out");
  train::Workbench bench(loaded, inspected_weights(arguments));
  const inspect::GradientReport report = inspect::report_gradients(bench, arguments.batches.value_or(4));
  if (!arguments.out.empty())
    files::write_atomically(arguments.out, plot::to_svg(inspect::charts_of(report)));
  if (arguments.json) {
    Json layers = Json::array();
    for (const auto& layer : report.layers) layers.push_back(to_json(layer));
    output::print("{}\n",
                  files::json_text(
                      Json{{"batches", report.batches}, {"all", to_json(report.all)}, {"layers", layers}}));
    return 0;
  }
  print_notes(bench);
  output::print(
      "gradients of {} batches of {} in FP32; % of all values that are zero, and that FP16 rounds to zero at "
      "a loss scale (!: some overflow)\n\n",
      report.batches, loaded.config.data.batch_size);
  report::Table table(
      {"layer", "of", "log2 from -48 to 15", "zero", "1", "8", "64", "1024", "2^15", "2^16", "saved by"});
  table.right_from(3);
  const auto add = [&](const inspect::LayerGradients& layer) {
    if (layer.activations.total() > 0) table.add(cells(layer.name, "activations", layer.activations));
    if (layer.weights.total() > 0) table.add(cells(layer.name, "weights", layer.weights));
  };
  for (const auto& layer : report.layers) add(layer);
  add(report.all);
  table.print();
  const auto& all = report.all;
  output::print(
      "\nactivation gradients that are zero in FP16 at scale 1: {:.2f} % predicted from FP32, {:.2f} % "
      "measured\n",
      percent(all.activations.zeros() + all.activations.flushed(0), all.activations.total()),
      percent(all.measured.zeros(), all.measured.total()));
  if (!arguments.out.empty()) output::print("chart: {}\n", arguments.out);
  return 0;
}

// ---- tensors

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

// Statistics of the finite elements; NaN if there are none.
struct Statistics {
  double low = kNoFigure, high = kNoFigure, mean = kNoFigure, deviation = kNoFigure;
  std::int64_t non_finite = 0;
};

Statistics statistics_of(const Tensor& tensor) {
  Statistics s;
  double sum = 0.0, squares = 0.0, count = 0.0;
  for (const double value : tensor.to_vector<double>()) {
    if (!std::isfinite(value)) {
      ++s.non_finite;
      continue;
    }
    s.low = count == 0.0 ? value : std::min(s.low, value);
    s.high = count == 0.0 ? value : std::max(s.high, value);
    count += 1.0;
    const double delta = value - sum;  // Welford: `sum` is the running mean
    sum += delta / count;
    squares += delta * (value - sum);
  }
  if (count > 0.0) {
    s.mean = sum;
    s.deviation = std::sqrt(squares / count);
  }
  return s;
}

std::string shape_text(const std::vector<std::uint64_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ","));
}

int tensors(const InspectArguments& arguments, const std::string& path) {
  const safetensors::File file(path);
  Json rows = Json::array();
  report::Table table({"tensor", "type", "shape", "min", "max", "mean", "std", "not finite"});
  table.right_from(3);
  std::int64_t elements = 0;
  for (const safetensors::Entry& entry : file.entries()) {
    const bool known =
        dtype_from_name([&] {
          std::string name = entry.dtype;
          std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
          return name;
        }())
            .has_value() &&
        entry.extents.size() <= static_cast<std::size_t>(kMaxRank);
    Statistics s;
    if (known) s = statistics_of(file.read(entry));
    std::uint64_t count = 1;
    for (const std::uint64_t extent : entry.extents) count *= extent;
    elements += static_cast<std::int64_t>(count);
    const auto value = [&](double x) { return known ? figure_text(x, 4) : "?"; };
    table.add({entry.name, entry.dtype, shape_text(entry.extents), value(s.low), value(s.high), value(s.mean),
               value(s.deviation), s.non_finite > 0 ? fmt::format("{}", s.non_finite) : ""});
    Json row{{"name", entry.name}, {"dtype", entry.dtype}, {"shape", entry.extents}};
    if (known)
      row.update(Json{{"min", s.low},
                      {"max", s.high},
                      {"mean", s.mean},
                      {"std", s.deviation},
                      {"non_finite", s.non_finite}});
    rows.push_back(row);
  }
  if (arguments.json) {
    output::print("{}\n",
                  files::json_text(Json{{"file", path}, {"metadata", file.metadata()}, {"tensors", rows}}));
    return 0;
  }
  output::print("{}\n\n", path);
  table.print();
  output::print("\n{} tensors, {} values, {}\n", file.entries().size(), elements,
                bytes_text(static_cast<double>(fs::file_size(path))));
  for (const auto& [key, text] : file.metadata()) output::print("{}: {}\n", key, shortened(text, 100));
  return 0;
}

// Prints the training state next to the weights, if there is one.
void print_state(const fs::path& path) {
  if (files::kind_of(path) == files::Kind::absent) return;
  const std::string words = runs::state_summary(safetensors::File(path.string()));
  if (!words.empty()) output::print("\nstate: {}\n", words);
}

}  // namespace

config::Loaded inspected_config(const InspectArguments& arguments) {
  config::Loaded loaded = config::load(arguments.subject, arguments.overrides);
  if (runs::RunDirectory::is_run(arguments.subject))
    train::take_plan_of_run(loaded, runs::RunDirectory::open(arguments.subject));
  return loaded;
}

runs::Weights inspected_weights(const InspectArguments& arguments) {
  const std::string& given = arguments.weights;
  if (runs::RunDirectory::is_run(arguments.subject))
    return runs::weights_of(runs::RunDirectory::open(arguments.subject), given.empty() ? "last" : given);
  if (given.empty()) return {};
  const std::optional<std::string> file = runs::weights_at(given);
  require(file.has_value(), "",
          "inspect: --weights {}: no such file; best, last and step-N need a run, and {} is not one", given,
          arguments.subject);
  return runs::weights_in(*file);
}

int inspect(const InspectArguments& arguments) {
  const int reports = arguments.casts + arguments.gradients + arguments.headroom + arguments.blame;
  require(reports <= 1, "",
          "inspect: --casts, --gradients, --headroom and --blame are separate reports; give one of them");
  require(arguments.out.empty() || arguments.gradients, "", "inspect: --out needs --gradients");
  require(arguments.batches.value_or(1) >= 1, "", "inspect: --batches is {}, expected at least 1",
          arguments.batches.value_or(1));
  if (arguments.casts) return casts(arguments);
  if (arguments.gradients) return gradients(arguments);
  if (arguments.headroom) return inspect_headroom(arguments);
  if (arguments.blame) return inspect_blame(arguments);
  const files::Kind kind = files::kind_of(arguments.subject);
  if (kind == files::Kind::file || kind == files::Kind::special) {
    require(fs::path(arguments.subject).extension() == ".safetensors", "",
            "inspect: {} is not a .safetensors file; for a configuration, give a report (--casts, "
            "--gradients, --headroom, --blame)",
            arguments.subject);
    require(arguments.weights.empty(), "",
            "inspect: --weights needs a run or a configuration, and {} is a file; give one of them",
            arguments.subject);
    const int code = tensors(arguments, arguments.subject);
    if (!arguments.json) print_state(arguments.subject);
    return code;
  }
  require(runs::RunDirectory::is_run(arguments.subject), "",
          "inspect: {} is neither a run directory nor a file; for a configuration, give a report (--casts, "
          "--gradients, --headroom, --blame)",
          arguments.subject);
  const auto run = runs::RunDirectory::open(arguments.subject);
  const std::string weights = inspected_weights(arguments).path;
  const int code = tensors(arguments, weights);
  if (!arguments.json) print_state(fs::path(weights).parent_path() / "state.safetensors");
  return code;
}

}  // namespace tandem::cli
