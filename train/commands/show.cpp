#include <fmt/core.h>

#include "train/commands/commands.h"
#include "train/config/load.h"

namespace tandem::commands {

int show(const ShowArguments& arguments) {
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  if (arguments.json) {
    fmt::print("{}\n", config::resolved(loaded.config).dump(2));
  } else {
    fmt::print("{}", config::with_origins(loaded));
  }
  return 0;
}

}  // namespace tandem::commands
