// table: the arms of the published comparison (FP32, mixed precision without a loss scale, with a constant
// and with a dynamic one), FP32 one ulp off, and BF16, as `tandem compare` judges them.
#include "report/table.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "studies/compare/report.h"
#include "studies/demo/demo.h"

namespace tandem::demo {

void run_table(Session& session) {
  const bool small = session.small();
  // The shipped configuration, shortened for a test.
  std::vector<std::string> overrides;
  if (small)
    overrides = {"data={\"name\":\"digits\",\"batch_size\":64,\"drop_last\":true}", "epochs=1",
                 "compare.seeds=2", "schedule=constant"};
  const compare::Experiment experiment = compare::make_experiment(
      {"fashion_resnet8_table", overrides, (session.options().out / "compare").string()});
  std::filesystem::create_directories(experiment.out / "arms");
  const train::StopRequest stop;
  const auto say = [&](const std::string& line) { session.progress(line); };
  auto results = compare::run_arms(experiment, stop, say);
  std::vector<std::optional<compare::ArmSpeed>> speeds;
  if (!small) speeds = compare::measure_speed(experiment, stop, say);
  const compare::Report report = compare::make_report(experiment, std::move(results), std::move(speeds));
  compare::write_report(report, experiment.out);
  session.say(fmt::format("ResNet-8 on {}, {} seeds.\n", small ? "the digits" : "Fashion-MNIST",
                          experiment.seeds.size()));
  session.say(report::with_aligned_tables(compare::table_markdown(report)));

  Json rows = Json::array();
  std::size_t equivalent = 0, judged = 0;
  double least_memory = 1.0;
  bool complete = true;
  for (const compare::Row& row : report.rows) {
    complete = complete && row.n == experiment.seeds.size();
    const double memory = static_cast<double>(row.peak_memory_bytes) /
                          static_cast<double>(report.rows.front().peak_memory_bytes);
    least_memory = std::min(least_memory, memory);
    if (row.verdict) {
      ++judged;
      equivalent += row.verdict->text().starts_with("equivalent");
    }
    rows.push_back({{"arm", row.arm.name},
                    {"mean", row.mean},
                    {"sd", row.sd},
                    {"n", row.n},
                    {"skipped", row.skipped},
                    {"verdict", row.verdict ? row.verdict->text() : "baseline"},
                    {"memory", memory}});
  }
  session.values = {{"seeds", experiment.seeds.size()}, {"rows", rows}};
  // Chance moves an arm by a few standard deviations; a failed arm is far below.
  const double lowest = std::ranges::min(report.rows, {}, &compare::Row::mean).mean;
  const bool together = lowest > report.rows.front().mean - (small ? 10.0 : 2.0);
  session.verdict(complete && least_memory < 1.0 && judged == report.rows.size() - 1 && together,
                  fmt::format("{} of {} arms are equivalent to FP32 within {:g} points; mixed precision "
                              "needs {:.0f} % of FP32's memory.",
                              equivalent, judged, report.margin, 100.0 * least_memory));
}

}  // namespace tandem::demo
