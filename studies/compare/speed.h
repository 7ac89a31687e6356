// Speed of an arm relative to FP32.
//
// A round starts one new process for each side, warms both up, and runs blocks of steps in the order fp32 arm
// arm fp32, so that a linear drift of the machine cancels. The result is the distribution over rounds of each
// round's ratio. FP32 on both sides gives the noise floor. Only items of applied steps count.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "studies/compare/experiment.h"
#include "train/signals.h"

namespace tandem::compare {

// One block, as one row of speed.csv.
struct Block {
  std::string side;  // name of the arm
  std::string mode;  // "compute": one batch that stays on the device; "loader": end to end
  std::int64_t round = 1;
  int block = 1;                                   // 1 to 4, in the order of execution
  std::int64_t steps = 0, applied = 0, items = 0;  // items of applied steps
  double seconds = 0.0;
};

struct Ratio {
  double median = 0.0, p10 = 0.0, p90 = 0.0;
};

struct ArmSpeed {
  std::vector<Block> blocks;  // of the arm's rounds, both sides
  std::optional<Ratio> compute, loader;
  std::size_t peak_memory_bytes = 0;
  std::vector<std::pair<std::string, std::size_t>> memory;  // by kind, at the peak
};

// Ratios of the arm's items per second to FP32's, one per round; absent without rounds. Blocks 1 and 4 of a
// round are FP32.
std::optional<Ratio> ratio_of(const std::vector<Block>& blocks, const std::string& mode);

// One entry for each arm; fp32 has the A/A ratio, fp32_null none, since its arithmetic is the same. Earlier
// measurements are read from arms/ARM/speed.json. Throws Interrupted.
std::vector<std::optional<ArmSpeed>> measure_speed(const Experiment& experiment,
                                                   const train::StopRequest& stop,
                                                   const std::function<void(const std::string&)>& say);

}  // namespace tandem::compare
