#include "train/environment.h"

#include <nlohmann/json.hpp>

#include "train/commands/commands.h"
#include "train/json_text.h"
#include "train/output.h"

namespace tandem::commands {

int environment(const EnvironmentArguments& arguments) {
  const auto environment = train::environment();
  train::print(
      "{}", arguments.json ? train::json_text(environment, 2) + "\n" : train::environment_text(environment));
  return 0;
}

}  // namespace tandem::commands
