// The speed of an arm against FP32, apart from accuracy.
//
// A round starts one fresh process for each side, warms both up and lets them take turns in blocks of steps,
// fp32 arm arm fp32, so that a drift of the machine cancels; what is reported is the ratio of a round, over
// the rounds. The same with FP32 on both sides is the noise floor. Only items of applied steps count.
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
  std::string side;  // name of the arm that ran
  std::string mode;  // "compute": one batch that stays on the device; "loader": end to end
  std::int64_t round = 1;
  int block = 1;                                   // 1 to 4, in the order they ran
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

// Items per second of the arm over those of FP32, a ratio a round; absent without rounds. The sides of a
// round are told apart by the order of their blocks: 1 and 4 are FP32.
std::optional<Ratio> ratio_of(const std::vector<Block>& blocks, const std::string& mode);

// One entry for each arm; that of fp32 is the A/A ratio. fp32_null does the same arithmetic and is not
// measured. What was measured before is kept in arms/ARM/speed.json and not measured again. Throws
// Interrupted.
std::vector<std::optional<ArmSpeed>> measure_speed(const Experiment& plan, const train::StopRequest& stop,
                                                   const std::function<void(const std::string&)>& say);

}  // namespace tandem::compare
