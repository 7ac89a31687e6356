#include "tasks/build_model.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"
#include "models/builder.h"
#include "models/options.h"

namespace tandem::tasks {

nn::ModulePtr build_model(const config::Loaded& loaded, const models::DataInfo& data) {
  const RandomScope random(static_cast<std::uint64_t>(loaded.config.seed), 0, 0);
  try {
    return models::build(nlohmann::json(loaded.config.model.spec), data);
  } catch (const models::OptionError& error) {
    const std::string what = error.what();  // "[model.width] expected …"
    const std::size_t end = what.find("] ");
    throw UserError("", fmt::format("{}: {}: {}", config::place_of(loaded.given, error.path()), error.path(),
                                    end == std::string::npos ? what : what.substr(end + 2)));
  }
}

}  // namespace tandem::tasks
