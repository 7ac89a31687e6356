#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "config/load.h"
#include "core/error.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "report/facts.h"
#include "report/html.h"
#include "runs/metrics_table.h"
#include "runs/run_directory.h"
#include "studies/inspect/gradients.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

std::string flushed_fact(const std::string& what, const amp::ExponentHistogram& histogram) {
  return fmt::format("{}: {}", what,
                     report::flushed_text(
                         histogram.flushed(0),
                         static_cast<double>(histogram.total() - histogram.zeros() - histogram.non_finite()),
                         histogram.saving_scale()));
}

// Exponents from a pass over the data with the saved weights, or the reason why there are none.
report::Exponents computed(const runs::RunRecord& run) {
  report::Exponents found;
  try {
    const auto directory = runs::RunDirectory::open(run.path.string());
    const runs::Weights weights = runs::weights_of(directory, "last");
    const config::Loaded loaded = config::load(directory.config());
    train::prepare_machine(loaded);
    train::Workbench bench(loaded, weights);
    // Gradients on noise are not those of the run.
    for (const std::string& note : bench.notes())
      require(!note.ends_with("batches are noise"), "", "{}", note);
    const inspect::GradientReport report = inspect::report_gradients(bench, 1);
    found.source = "of one training batch with the last saved weights, in FP32";
    found.series = {inspect::series_of("activation gradients", report.all.activations),
                    inspect::series_of("weight gradients", report.all.weights)};
    found.facts = {flushed_fact("Activation gradients", report.all.activations),
                   flushed_fact("Weight gradients", report.all.weights)};
  } catch (const Error& error) {
    found.missing = error.what();
  }
  return found;
}

report::Exponents exponents_of(const std::vector<runs::RunRecord>& runs, bool compute) {
  report::Exponents recorded = report::recorded_exponents(runs, report::labels_of(runs));
  if (runs.size() > 1 || (!compute && !recorded.series.empty())) return recorded;
  report::Exponents found = computed(runs.front());
  if (!found.series.empty()) return found;
  if (recorded.series.empty()) {
    recorded.missing += fmt::format(" They cannot be computed either: {}.", found.missing);
  } else {
    recorded.facts.push_back(fmt::format("Others cannot be computed: {}.", found.missing));
  }
  return recorded;
}

}  // namespace

int report(const ReportArguments& arguments) {
  std::vector<runs::RunRecord> runs;
  for (const std::string& path : arguments.runs) runs.push_back(runs::read_run(path));
  require(runs.size() == 1 || !arguments.out.empty(), "",
          "report: the page of several runs belongs to none of them; give --out FILE.html");
  require(runs.size() == 1 || !arguments.gradients, "",
          "report: --gradients needs a single run; there are {}", runs.size());
  const std::string out =
      arguments.out.empty() ? (runs.front().path / "report.html").string() : arguments.out;
  std::error_code unknown;  // the writer reports it
  require(!fs::is_directory(out, unknown), "", "report: --out {} is a directory; name a file", out);
  runs::require_no_file_of_run(out, "--out");
  files::write_atomically(out, report::page_of(runs, exponents_of(runs, arguments.gradients)));
  nlohmann::ordered_json written{{"report", out}, {"tables", nlohmann::ordered_json::array()}};
  for (const runs::RunRecord& run : runs) {
    for (const std::string& note : run.notes) output::remark("{}: {}\n", run.path.string(), note);
    if (!arguments.csv) continue;
    const std::string csv = (run.path / "metrics.csv").string();
    files::write_atomically(csv, runs::csv_of(run));
    written["tables"].push_back(csv);
    if (!arguments.json) output::print("Table: {}\n", csv);
  }
  if (arguments.json) {
    output::print("{}\n", files::json_text(written));
  } else {
    output::print("Report: {}\n", out);
  }
  return 0;
}

}  // namespace tandem::cli
