// The largest batch whose training step fits in a given memory, for each arm.
//
// The peak of a step is linear in the batch size, so two measurements give an estimate; it is then measured,
// and reduced until it fits. Each measurement is a separate process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "studies/compare/experiment.h"
#include "train/signals.h"

namespace tandem::compare {

struct Capacity {
  std::int64_t batch = 0;  // 0: not even one sample fits
  std::size_t peak = 0;    // bytes of the step with that batch
  std::size_t memory = 0;  // limit in bytes
};

// One entry for each arm; absent for fp32_null, which equals fp32. Throws Interrupted.
std::vector<std::optional<Capacity>> largest_batches(const Experiment& experiment, std::size_t memory,
                                                     const train::StopRequest& stop,
                                                     const std::function<void(const std::string&)>& say);

// Bytes of "4GiB", "512 MiB", "2e9". Throws UserError for other texts.
std::size_t parse_bytes(const std::string& text);

}  // namespace tandem::compare
