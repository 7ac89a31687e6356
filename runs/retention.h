// Retention: selects the checkpoints that a run removes after a save.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::runs {

// Names of the checkpoints to remove. `checkpoints`: the latest, then the others, newest first. Kept are the
// first `keep` from the latest on, and those in `spared`. A checkpoint newer than the latest is removed: the
// run was resumed from an older one.
std::vector<std::string> superseded(std::span<const std::string> checkpoints, std::int64_t keep,
                                    std::span<const std::string> spared);

}  // namespace tandem::runs
