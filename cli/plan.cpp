// `tandem plan`: chooses the dtypes of every op by their gain on this machine, and compares two plans.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "amp/plan/plan_file.h"
#include "cli/commands.h"
#include "config/load.h"
#include "core/error.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "runs/run_directory.h"
#include "studies/plan/planner.h"
#include "studies/plan/report.h"
#include "train/setup.h"

namespace tandem::cli {

namespace {

// "^fc=f32"
amp::plan::Must must_of(const std::string& text) {
  const std::size_t split = text.rfind('=');
  const std::string type = split == std::string::npos ? "" : text.substr(split + 1);
  require(type == "f32" || type == "low", "",
          "plan: --must {}: expected an expression and a dtype, \"^fc=f32\" or \"^block3=low\"", text);
  return {.match = text.substr(0, split), .low = type == "low"};
}

amp::plan::PhasePlans read_plan(const std::string& file) {
  return amp::plan::parse_plan(files::read_text(file), file);
}

}  // namespace

int plan(const PlanArguments& arguments) {
  require(!arguments.config.empty(), "", "plan: give a configuration, or `diff` and two plans");
  require(!arguments.limit || arguments.policy == "search", "", "plan: --limit needs --policy search");
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.dtype.empty()) overrides.push_back("precision=amp_" + arguments.dtype);
  const config::Loaded loaded = config::load(arguments.config, overrides);
  train::prepare_machine(loaded);
  planning::Request request{
      .policy = arguments.policy,
      .rounding = arguments.free ? amp::plan::Rounding::free : amp::plan::Rounding::strict,
      .seconds = arguments.seconds,
      .limit = arguments.limit};
  for (const std::string& must : arguments.must) request.must.push_back(must_of(must));
  runs::require_no_file_of_run(arguments.out, "--out");
  const planning::Planned planned = planning::make_plan(loaded, request);
  const bool writes = arguments.force || !planned.is_slower();
  if (arguments.json) {
    auto json = planning::to_json(planned);
    json["written"] = writes ? nlohmann::ordered_json(arguments.out) : nlohmann::ordered_json();
    output::print("{}\n", files::json_text(json));
  } else {
    planning::print(loaded.config.name, planned);
  }
  if (!writes) {
    output::print_error(
        fmt::format("plan: {} is not written: its steps are slower than in FP32; --force writes it anyway",
                    arguments.out));
    return kExitFailure;
  }
  files::write_atomically(arguments.out, amp::plan::plan_text(planned.plans()));
  const config::PrecisionConfig& precision = loaded.config.precision;
  if (!arguments.json)
    output::print(
        "\n{}: train with it: tandem train {} {}\n", arguments.out, arguments.config,
        precision.is_fp32() || !arguments.dtype.empty()
            ? fmt::format(R"('precision={{"level":"O1","dtype":"{}","plan":"{}"}}')",
                          arguments.dtype.empty() ? precision.dtype : arguments.dtype, arguments.out)
            : "precision.plan=" + arguments.out);
  return 0;
}

int plan_difference(const PlanDifferenceArguments& arguments) {
  const amp::plan::PhasePlans first = read_plan(arguments.first);
  const auto changes = amp::plan::differences(first, read_plan(arguments.second));
  for (const auto& change : changes) output::print("{}\n", change.text);
  if (changes.empty()) output::print("no difference\n");
  return amp::plan::same_types(changes) ? 0 : kExitFailure;
}

}  // namespace tandem::cli
