// The teaching runs.
#include "train/demo/demo.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"
#include "train/commands/commands.h"

namespace tandem::commands {

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
  demo::Session session(arguments.name,
                        {.out = arguments.out.empty() ? "runs/demo-" + arguments.name : arguments.out,
                         .small = arguments.small,
                         .text = arguments.text});
  found->run(session);
  return 0;
}

}  // namespace tandem::commands
