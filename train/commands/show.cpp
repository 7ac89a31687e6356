#include "train/commands/commands.h"
#include "train/config/load.h"
#include "train/output.h"

namespace tandem::commands {

int show(const ShowArguments& arguments) {
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  if (arguments.json) {
    train::print("{}\n", config::resolved(loaded.config).dump(2));
  } else {
    train::print("{}", config::with_origins(loaded));
  }
  return 0;
}

}  // namespace tandem::commands
