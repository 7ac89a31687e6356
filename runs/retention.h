// Retention: the checkpoints that a run removes after a save.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::runs {

// Those of `checkpoints` that are not kept. `checkpoints`: the latest, then the others, newest first. Kept
// are `keep` from the latest on, and those in `spared`. One that is newer than the latest goes: the run has
// gone on from an older checkpoint.
std::vector<std::string> superseded(std::span<const std::string> checkpoints, std::int64_t keep,
                                    std::span<const std::string> spared);

}  // namespace tandem::runs
