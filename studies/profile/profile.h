// Profile: where the time of a training step goes, by op and by family of ops, and how near each comes to
// what the device can do at most.
//
// Measured on the device's clock, in ordinary steps. An asynchronous device is given other work ahead of each
// step, so that it waits for the host as little as possible; where the host cannot keep ahead all the same,
// an op's time has the waiting in it. Every op pays for its two timestamps, see Limits::empty_seconds.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "optim/step.h"
#include "studies/profile/limits.h"
#include "studies/profile/recorder.h"
#include "train/stages.h"

namespace tandem::profile {

// Of a step, as a mean over the profiled ones.
struct Cost {
  double calls = 0.0;
  double seconds = 0.0;
  double bytes = 0.0, flop = 0.0;  // at least moved; of products
  double bound = 0.0;              // seconds that the limits ask for, call by call

  // 0 where the time is 0.
  double bytes_per_second() const { return seconds > 0.0 ? bytes / seconds : 0.0; }
  double flops() const { return seconds > 0.0 ? flop / seconds : 0.0; }
  // bound / time; above 1 where a cache held what an op read.
  double roofline() const { return seconds > 0.0 ? bound / seconds : 0.0; }
  Cost& operator+=(const Cost& other);
};

struct FamilyCost {
  std::string family;  // "conv", see family_of; "update"
  Direction direction = Direction::forward;
  Cost cost;
};

struct OpCost {
  std::string op;  // "conv2d"
  Direction direction = Direction::forward;
  std::string shapes;      // of the forward call, also of a backward
  std::string algorithms;  // of convolutions on a CPU, see Call; "" elsewhere
  Cost cost;
  std::vector<OpCost> parts;  // products of a backward; counted in `cost`
};

struct Profile {
  int steps = 0;
  double step_seconds = 0.0;                                      // from its first mark to its last
  std::array<double, train::kStageNames.size()> stage_seconds{};  // those that were told
  Cost ops;                                                       // of all ops and the update
  std::vector<FamilyCost> families;                               // by name, forward first
  std::vector<OpCost> slowest;                                    // all ops, the slowest first
  Limits limits;

  // What the device did besides, such as adding up gradients, and its waiting.
  double rest_seconds() const { return step_seconds - ops.seconds; }
};

// Calls `run_step`, an ordinary step that tells its stages to `stages`, once to warm up and `steps`
// times to be measured.
Profile measure(Backend& backend, std::int64_t update_bytes, train::StageTimer& stages, int steps,
                const std::function<void()>& run_step);

// Milliseconds, GB/s, TFLOP/s and shares between 0 and 1: see tests/device/profile_test.cpp for every key.
nlohmann::ordered_json to_json(const Profile& profile);
// Tables for a terminal.
void print(const Profile& profile);

}  // namespace tandem::profile
