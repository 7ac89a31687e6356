#include "runs/environment.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/device_library.h"
#include "files/json_text.h"
#include "files/output.h"
#include "parallel/launch.h"
#include "parallel/nccl/open.h"
#include "train/process_group.h"
#include "train/rank_facts.h"
#include "train/setup.h"

namespace tandem::cli {

int environment(const EnvironmentArguments& arguments) {
  const std::unique_ptr<parallel::Communicator> communicator = parallel::open_communicator();
  train::share_cpus(*communicator, config::ParallelConfig().deadline_s);
  auto environment = runs::environment();
  std::string ranks;
  if (cuda_devices().count > 0) {  // NCCL joins ranks on GPUs
    const std::string version = parallel::nccl_version(), none = parallel::why_no_nccl();
    environment["nccl"] = version.empty() ? tasks::Json(nullptr) : tasks::Json(version);
    ranks = fmt::format("{:<14}{}\n", "NCCL", version.empty() ? "none: " + none : version);
  }
  if (communicator->size() > 1) {
    train::ProcessGroup all(communicator.get(), {}, communicator->size());
    environment["communicator"] = communicator->description();
    for (const std::string& text : all.texts(files::json_text(train::facts_of_rank(environment)))) {
      auto& facts = environment["ranks"].emplace_back(tasks::Json::parse(text));
      ranks += train::text_of_rank(static_cast<int>(environment["ranks"].size()) - 1, facts) + "\n";
    }
  }
  if (communicator->rank() == 0)
    output::print("{}", arguments.json ? files::json_text(environment, 2) + "\n"
                                       : runs::environment_text(environment) + ranks);
  return 0;
}

}  // namespace tandem::cli
