// `tandem demo`: demonstrations of mixed precision.
#include "studies/demo/demo.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "core/error.h"
#include "core/suggest.h"
#include "runs/run_directory.h"

namespace tandem::cli {

int demo(const DemoArguments& arguments) {
  const auto demos = demo::demos();
  const auto found =
      std::ranges::find_if(demos, [&](const demo::Demo& d) { return arguments.name == d.name; });
  if (found == demos.end()) {
    std::vector<std::string> known;
    for (const demo::Demo& d : demos) known.emplace_back(d.name);
    throw UserError("", fmt::format("demo: there is no \"{}\"{}; there are {}", arguments.name,
                                    did_you_mean(arguments.name, known), fmt::join(known, ", ")));
  }
  const std::string out = arguments.out.empty() ? "runs/demo-" + arguments.name : arguments.out;
  runs::require_no_file_of_run(out, "--out");
  demo::Session session(arguments.name, {.out = out, .small = arguments.small, .text = arguments.text});
  found->run(session);
  return 0;
}

}  // namespace tandem::cli
