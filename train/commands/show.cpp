#include "train/commands/commands.h"
#include "train/config/load.h"
#include "train/json_text.h"
#include "train/output.h"

namespace tandem::commands {

int show(const ShowArguments& arguments) {
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  if (arguments.json) {
    train::print("{}\n", train::json_text(config::resolved(loaded.config), 2));
  } else {
    train::print("{}", config::with_origins(loaded));
  }
  return 0;
}

}  // namespace tandem::commands
