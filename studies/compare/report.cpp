#include "studies/compare/report.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/csv.h"
#include "files/json_text.h"
#include "files/write.h"

namespace tandem::compare {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNone = "–";

std::vector<double> values_of(const std::vector<SeedResult>& seeds) {
  std::vector<double> values;
  for (const SeedResult& seed : seeds)
    if (seed.value) values.push_back(*seed.value);
  return values;
}

Row make_row(const Arm& arm, std::vector<SeedResult> seeds) {
  Row row;
  row.arm = arm;
  const std::vector<double> values = values_of(seeds);
  row.n = values.size();
  row.mean = mean(values);
  row.sd = standard_deviation(values);
  std::vector<double> own;
  for (const SeedResult& seed : seeds) {
    if (seed.own) own.push_back(*seed.own);
    row.diverged += seed.diverged ? 1 : 0;
    row.skipped += seed.skipped;
    row.peak_memory_bytes = std::max(row.peak_memory_bytes, seed.peak_memory_bytes);
  }
  if (!own.empty()) row.own_mean = mean(own);
  row.seeds = std::move(seeds);
  return row;
}

void compare_with(const Row& baseline, Row& row, const Experiment& experiment) {
  std::vector<double> own, other;
  for (std::size_t i = 0; i < row.seeds.size(); ++i) {
    const SeedResult &mine = row.seeds[i], &theirs = baseline.seeds[i];
    if (mine.value && theirs.value) {
      own.push_back(*mine.value);
      other.push_back(*theirs.value);
      if (mine.applied != theirs.applied) row.unequal.push_back(mine.seed);
    }
  }
  row.test = paired_test(own, other, experiment.margin, experiment.greater_is_better);
}

std::string number(double value, int digits, bool sign = false) {
  if (!std::isfinite(value)) return kNone;
  const std::string text =
      sign ? fmt::format("{:+.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
  return text;
}

std::string ratio_text(const std::optional<Ratio>& ratio) {
  return ratio ? fmt::format("{:.2f} [{:.2f}–{:.2f}]", ratio->median, ratio->p10, ratio->p90) : kNone;
}

std::string speed_text(const Row& row) {
  if (!row.speed || !row.speed->compute) return kNone;
  std::string text = ratio_text(row.speed->compute);
  if (row.arm.name == kBaseline) text += " A/A";
  if (row.arm.emulated) text += " emulated";
  return text;
}

std::string table_row(const Report& report, const Row& row) {
  const int digits = report.percent ? 2 : 4;
  std::string delta = kNone, interval = kNone, margin = kNone, verdict = "baseline";
  if (row.test) {
    delta = number(row.test->delta, digits, true);
    if (std::isfinite(row.test->low))
      interval =
          fmt::format("[{}, {}]", number(row.test->low, digits, true), number(row.test->high, digits, true));
    margin = fmt::format("± {:g}", report.margin);
    verdict = row.verdict->text();
  }
  return fmt::format("| {} | {} ± {} ({}) | {} | {} | {} | {} | {} | {} | {} | {:.1f} |\n", row.arm.name,
                     number(row.mean, digits), number(row.sd, digits), row.n, delta, interval, margin,
                     verdict, row.diverged, row.skipped, speed_text(row),
                     static_cast<double>(row.peak_memory_bytes) / 1e6);
}

std::string unit(const Report& report) {
  return report.percent ? fmt::format("percentage points of {}", report.metric)
                        : fmt::format("units of {}", report.metric == "loss" ? "the loss" : report.metric);
}

void add_statistics_notes(const Report& report, std::string& text) {
  const int digits = report.percent ? 2 : 4;
  text += fmt::format(
      "- Margin: ± {:g} {}{}, fixed before the runs. An arm is equivalent if the 90 % confidence interval of "
      "its paired differences lies within the margin (two one-sided tests at 5 %, Holm's correction across "
      "arms).\n",
      report.margin, unit(report), report.default_margin ? " (the default)" : "");
  std::vector<std::string> powers, own;
  for (const Row& row : report.rows) {
    if (row.own_mean && row.arm.precision != "fp32")
      own.push_back(fmt::format("{} {}", row.arm.name, number(*row.own_mean, digits)));
    if (!row.test) continue;
    powers.push_back(fmt::format("{} ± {} (pair correlation {})", row.arm.name,
                                 number(row.test->detectable, digits), number(row.test->correlation, 2)));
    if (row.arm.name == kNull)
      text += fmt::format(
          "- Null arm: FP32 with initial weights one ulp off differs by {} (sd of a pair {}). This is "
          "run-to-run noise; a smaller difference is not significant.\n",
          number(row.test->delta, digits, true), number(row.test->sd, digits));
  }
  if (!powers.empty())
    text +=
        fmt::format("- Detectable margin: the smallest margin that these seeds show with 80 % power – {}.\n",
                    fmt::join(powers, ", "));
  if (!own.empty())
    text += fmt::format(
        "- The results are those of the final step, evaluated with FP32 masters; evaluated in the arm's own "
        "precision, the means are {}.\n",
        fmt::join(own, ", "));
}

void add_remarks(const Report& report, std::string& text) {
  for (const Row& row : report.rows) {
    if (row.verdict && !row.verdict->reason.empty())
      text += fmt::format("- {}: {}.\n", row.arm.name, row.verdict->reason);
    for (const SeedResult& seed : row.seeds) {
      if (seed.diverged)
        text += fmt::format("- {} diverged with seed {}{}{}\n", row.arm.name, seed.seed,
                            seed.failure.empty() ? "." : ": ", seed.failure);
    }
    if (!row.unequal.empty())
      text += fmt::format("- {}: the number of applied updates differs from fp32 with seed {}.\n",
                          row.arm.name, fmt::join(row.unequal, ", "));
  }
}

void add_speed_notes(const Report& report, std::string& text) {
  std::vector<std::string> loaded;
  std::string floor = kNone;
  for (const Row& row : report.rows) {
    if (!row.speed) continue;
    if (row.arm.name == kBaseline) floor = ratio_text(row.speed->compute);
    loaded.push_back(fmt::format("{} {}", row.arm.name, ratio_text(row.speed->loader)));
  }
  if (loaded.empty()) return;
  text += fmt::format(
      "- Speed: items of applied steps per second relative to fp32, in alternating blocks of new processes, "
      "without the loader. The noise floor is fp32 against itself, {}. End to end with the loader: {}.\n",
      floor, fmt::join(loaded, ", "));
  for (const Row& row : report.rows) {
    if (!row.speed || row.speed->memory.empty()) continue;
    std::vector<std::string> kinds;
    for (const auto& [kind, bytes] : row.speed->memory)
      if (bytes > 0) kinds.push_back(fmt::format("{} {:.1f}", kind, static_cast<double>(bytes) / 1e6));
    text += fmt::format("- Memory of {} in MB at the peak: {}.\n", row.arm.name, fmt::join(kinds, ", "));
  }
}

Json json_of(const Row& row) {
  Json values = Json::array(), memory = Json::object();
  for (const SeedResult& seed : row.seeds) values.push_back(seed.value ? Json(*seed.value) : Json());
  Json json{{"arm", row.arm.name}, {"precision", row.arm.precision},
            {"n", row.n},          {"mean", row.mean},
            {"sd", row.sd},        {"values", values}};
  json["delta"] = row.test ? row.test->delta : 0.0;
  json["ci90"] = row.test ? Json::array({row.test->low, row.test->high}) : Json::array({0.0, 0.0});
  json["verdict"] = row.verdict ? row.verdict->text() : "baseline";
  json["diverged"] = row.diverged;
  json["skipped"] = row.skipped;
  json["speedup"] = Json();
  if (row.speed && row.speed->compute) {
    const Ratio& ratio = *row.speed->compute;
    json["speedup"] = {{"median", ratio.median}, {"p10", ratio.p10}, {"p90", ratio.p90}};
  }
  json["peak_memory_bytes"] = row.peak_memory_bytes;
  if (row.speed)
    for (const auto& [kind, bytes] : row.speed->memory) memory[kind] = bytes;
  json["memory"] = memory;
  if (row.capacity)
    json["largest_batch"] = {{"batch", row.capacity->batch},
                             {"peak_memory_bytes", row.capacity->peak},
                             {"memory_bytes", row.capacity->memory}};
  return json;
}

std::string field(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace

bool Report::all_equivalent() const {
  for (const Row& row : rows)
    if (row.verdict && row.verdict->equivalence != Equivalence::equivalent) return false;
  return rows.size() > 1;
}

Report make_report(const Experiment& experiment, std::vector<std::vector<SeedResult>> results,
                   std::vector<std::optional<ArmSpeed>> speeds,
                   std::vector<std::optional<Capacity>> capacities) {
  ensure(results.size() == experiment.arms.size(), "make_report", "{} results, {} arms", results.size(),
         experiment.arms.size());
  Report report{experiment.name,   experiment.metric,         experiment.percent,
                experiment.margin, experiment.default_margin, {}};
  std::vector<ArmOutcome> outcomes;
  for (std::size_t i = 0; i < experiment.arms.size(); ++i) {
    Row row = make_row(experiment.arms[i], std::move(results[i]));
    if (i < speeds.size()) row.speed = std::move(speeds[i]);
    if (i < capacities.size()) row.capacity = capacities[i];
    // The peak of training steps alone, if measured: that of a run includes evaluation. An arm without a
    // speed measurement has the memory of the baseline if it has its precision.
    const auto& measured = row.speed || i == 0 ? row.speed : report.rows.front().speed;
    if (measured && measured->peak_memory_bytes > 0 &&
        (row.speed || row.arm.precision == report.rows.front().arm.precision))
      row.peak_memory_bytes = measured->peak_memory_bytes;
    if (i > 0) {
      compare_with(report.rows.front(), row, experiment);
      outcomes.push_back({*row.test, row.diverged, report.rows.front().diverged});
    }
    report.rows.push_back(std::move(row));
  }
  const std::vector<Verdict> found = verdicts(outcomes);
  for (std::size_t i = 0; i < found.size(); ++i) report.rows[i + 1].verdict = found[i];
  return report;
}

std::string table_markdown(const Report& report) {
  std::string text = fmt::format(
      "| arm | {} mean ± sd (n) | Δ | 90 % CI | margin | verdict | diverged | skipped | speed [p10–p90] | "
      "peak MB |\n|-|-|-|-|-|-|-|-|-|-|\n",
      report.metric);
  for (const Row& row : report.rows) text += table_row(report, row);
  text += "\n";
  add_statistics_notes(report, text);
  add_remarks(report, text);
  add_speed_notes(report, text);
  std::vector<std::string> batches;
  for (const Row& row : report.rows)
    if (row.capacity) batches.push_back(fmt::format("{} {}", row.arm.name, row.capacity->batch));
  if (!batches.empty())
    text += fmt::format("- Largest batch whose training step fits in {:.2f} GB: {}.\n",
                        static_cast<double>(report.rows.front().capacity->memory) / 1e9,
                        fmt::join(batches, ", "));
  return text;
}

std::string report_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(json_of(row));
  const Json json{{"metric", report.metric}, {"margin", report.margin}, {"rows", rows}};
  return files::json_text(json, 2) + "\n";
}

std::string seeds_csv(const Report& report) {
  std::string text = fmt::format(
      "arm,precision,seed,status,{0},{0}_in_precision,steps,applied,skipped,train_s,peak_memory_bytes,"
      "failure\n",
      report.metric);
  for (const Row& row : report.rows) {
    for (const SeedResult& seed : row.seeds)
      text += fmt::format(
          "{},{},{},{},{},{},{},{},{},{:.3f},{},{}\n", row.arm.name, files::csv_field(row.arm.precision),
          seed.seed, seed.diverged ? "diverged" : "completed", field(seed.value), field(seed.own), seed.steps,
          seed.applied, seed.skipped, seed.train_s, seed.peak_memory_bytes, files::csv_field(seed.failure));
  }
  return text;
}

std::string speed_csv(const Report& report) {
  std::string text = "arm,side,mode,round,block,steps,applied,items,seconds,items_per_s\n";
  for (const Row& row : report.rows) {
    if (!row.speed) continue;
    for (const Block& block : row.speed->blocks)
      text += fmt::format("{},{},{},{},{},{},{},{},{:.6f},{:.3f}\n", row.arm.name, block.side, block.mode,
                          block.round, block.block, block.steps, block.applied, block.items, block.seconds,
                          static_cast<double>(block.items) / block.seconds);
  }
  return text;
}

void write_report(const Report& report, const std::filesystem::path& directory) {
  files::write_atomically(directory / "seeds.csv", seeds_csv(report));
  files::write_atomically(directory / "speed.csv", speed_csv(report));
  files::write_atomically(directory / "table.md", table_markdown(report));
  files::write_atomically(directory / "compare.json", report_json(report));
}

}  // namespace tandem::compare
