#include "cli/commands.h"
#include "config/load.h"
#include "files/json_text.h"
#include "files/output.h"

namespace tandem::cli {

int show(const ShowArguments& arguments) {
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  if (arguments.json) {
    output::print("{}\n", files::json_text(config::resolved(loaded.config), 2));
  } else {
    output::print("{}", config::with_origins(loaded));
  }
  return 0;
}

}  // namespace tandem::cli
