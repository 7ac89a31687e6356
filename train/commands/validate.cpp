#include <fmt/core.h>

#include "train/commands/commands.h"
#include "train/config/load.h"

namespace tandem::commands {

int validate(const ConfigArguments& arguments) {
  const auto problems = config::problems_of(arguments.config, arguments.overrides);
  for (const auto& problem : problems) fmt::print(stderr, "{}\n", problem.text());
  if (!problems.empty()) return kExitUsage;
  fmt::print("{}: valid\n", arguments.config);
  return 0;
}

}  // namespace tandem::commands
