#include "cli/rank_deadline.h"

#include "config/load.h"
#include "core/error.h"
#include "parallel/launch.h"
#include "runs/run_directory.h"

namespace tandem::cli {

double deadline_at_start(const std::string& config, const std::vector<std::string>& overrides) {
  const double usual = config::ParallelConfig().deadline_s;
  if (!parallel::launch_from_environment()) return usual;
  try {
    const std::string file = runs::RunDirectory::is_run(config) ? config + "/config.json" : config;
    return config::load(file, overrides).config.parallel.deadline_s;
  } catch (const Error&) {
    return usual;
  }
}

}  // namespace tandem::cli
