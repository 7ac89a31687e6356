#include "runs/environment.h"

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "files/json_text.h"
#include "files/output.h"

namespace tandem::cli {

int environment(const EnvironmentArguments& arguments) {
  const auto environment = runs::environment();
  output::print(
      "{}", arguments.json ? files::json_text(environment, 2) + "\n" : runs::environment_text(environment));
  return 0;
}

}  // namespace tandem::cli
