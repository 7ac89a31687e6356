// `tandem compare`: one configuration in several precisions, paired by seed: the FP32-versus-AMP table.
#include <fmt/core.h>

#include <filesystem>

#include "cli/commands.h"
#include "core/error.h"
#include "files/output.h"
#include "files/write.h"
#include "report/table.h"
#include "runs/run_directory.h"
#include "studies/compare/report.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

std::string command_line(const CompareArguments& arguments) {
  std::string line = "tandem compare " + arguments.config;
  for (const std::string& argument : arguments.overrides)
    line += argument.find_first_of(" \"{}[]*?~$&;|<>()") == std::string::npos ? " " + argument
                                                                              : " '" + argument + "'";
  if (!arguments.require.empty()) line += " --require " + arguments.require;
  if (!arguments.out.empty()) line += " --out " + arguments.out;
  if (arguments.no_speed) line += " --no-speed";
  if (!arguments.largest_batch.empty()) line += " --largest-batch " + arguments.largest_batch;
  return line;
}

}  // namespace

int compare(const CompareArguments& arguments) {
  const compare::Experiment experiment =
      compare::make_experiment({arguments.config, arguments.overrides, arguments.out});
  const std::size_t memory =
      arguments.largest_batch.empty() ? 0 : compare::parse_bytes(arguments.largest_batch);
  runs::require_no_file_of_run(experiment.out, "--out");
  files::make_folder(experiment.out / "arms");
  const train::StopRequest stop;
  const auto say = [](const std::string& line) { output::remark("{}\n", line); };
  try {
    auto results = compare::run_arms(experiment, stop, say);
    std::vector<std::optional<compare::ArmSpeed>> speeds;
    if (!arguments.no_speed) speeds = compare::measure_speed(experiment, stop, say);
    std::vector<std::optional<compare::Capacity>> capacities;
    if (memory > 0) capacities = compare::largest_batches(experiment, memory, stop, say);
    const compare::Report report =
        compare::make_report(experiment, std::move(results), std::move(speeds), std::move(capacities));
    compare::write_report(report, experiment.out);
    output::print("{}\nComparison: {}\n", report::with_aligned_tables(compare::table_markdown(report)),
                  experiment.out.string());
    if (arguments.require != "equivalent" || report.all_equivalent()) return 0;
    output::remark("tandem: compare: not every arm is equivalent to fp32\n");
    return kExitFailure;
  } catch (const compare::Interrupted&) {
    output::print("Interrupted. Resume with the same command: {}\n", command_line(arguments));
    return kExitInterrupted;
  }
}

}  // namespace tandem::cli
