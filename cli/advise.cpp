// `tandem advise`: performance bounds of a configuration's step on this machine, and changes to make it
// faster.
#include "studies/advise/advise.h"

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "config/load.h"
#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "train/setup.h"

namespace tandem::cli {

int advise(const AdviseArguments& arguments) {
  require(!arguments.config.empty(), "",
          "advise: give a configuration: a file, a shipped name, or a run directory");
  require(arguments.seconds > 0.0, "", "advise: --seconds is {:g}, expected more than 0", arguments.seconds);
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  train::prepare_machine(loaded);
  const auto advice = advise::advise(loaded, arguments.seconds);
  if (arguments.json) {
    output::print("{}\n", files::json_text(advise::to_json(advice)));
  } else {
    advise::print(loaded.config.name, advice);
  }
  return 0;
}

}  // namespace tandem::cli
