// Report of a comparison: rows with results, the table and files made from them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "studies/compare/capacity.h"
#include "studies/compare/experiment.h"
#include "studies/compare/runner.h"
#include "studies/compare/speed.h"
#include "studies/compare/statistics.h"

namespace tandem::compare {

struct Row {
  Arm arm;
  std::vector<SeedResult> seeds;
  // Over the seeds with a value:
  std::size_t n = 0;
  double mean = 0.0, sd = 0.0;
  std::optional<double> own_mean;     // of evaluations in the arm's own precision
  std::optional<PairedTest> test;     // absent for the baseline
  std::optional<Verdict> verdict;     // absent for the baseline
  std::size_t diverged = 0;           // seeds
  std::int64_t skipped = 0;           // steps of all seeds together
  std::vector<std::int64_t> unequal;  // seeds with another number of applied updates than the baseline
  std::optional<ArmSpeed> speed;
  std::size_t peak_memory_bytes = 0;
  std::optional<Capacity> capacity;  // if requested
};

struct Report {
  std::string name, metric;
  bool percent = true;
  double margin = 0.5;
  bool default_margin = false;
  std::vector<Row> rows;  // the baseline first

  // Whether every arm except the baseline is equivalent; false if there is no other arm.
  bool all_equivalent() const;
};

Report make_report(const Experiment& experiment, std::vector<std::vector<SeedResult>> results,
                   std::vector<std::optional<ArmSpeed>> speeds,
                   std::vector<std::optional<Capacity>> capacities = {});

std::string table_markdown(const Report& report);
std::string report_json(const Report& report);
std::string seeds_csv(const Report& report);
std::string speed_csv(const Report& report);

// Writes compare.json, table.md, seeds.csv and speed.csv into `directory`.
void write_report(const Report& report, const std::filesystem::path& directory);

}  // namespace tandem::compare
