#include "runs/retention.h"

#include <algorithm>

#include "runs/checkpoint_store.h"

namespace tandem::runs {

std::vector<std::string> superseded(std::span<const std::string> checkpoints, std::int64_t keep,
                                    std::span<const std::string> spared) {
  std::vector<std::string> gone;
  std::int64_t kept = 0;
  for (const std::string& name : checkpoints) {
    const bool abandoned = CheckpointStore::step_of(name) > CheckpointStore::step_of(checkpoints.front());
    if (!abandoned && kept++ < keep) continue;
    if (std::ranges::find(spared, name) == spared.end()) gone.push_back(name);
  }
  return gone;
}

}  // namespace tandem::runs
