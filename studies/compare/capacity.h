// The largest batch whose training step fits into a given memory, for each arm.
//
// The peak of a step grows by the same bytes for every sample, so two measurements give an estimate; it is
// then tried, and lowered until it fits. Every measurement is a process of its own.
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
  std::size_t memory = 0;  // what it was asked to fit into
};

// One entry for each arm; fp32_null is fp32. Throws Interrupted.
std::vector<std::optional<Capacity>> largest_batches(const Experiment& plan, std::size_t memory,
                                                     const train::StopRequest& stop,
                                                     const std::function<void(const std::string&)>& say);

// "4GiB", "512 MiB", "2e9": bytes. Throws UserError for anything else.
std::size_t parse_bytes(const std::string& text);

}  // namespace tandem::compare
