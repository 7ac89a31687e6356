// Profile: time of a training step by op and by family of ops, and its distance from the limits of the
// device.
//
// Times are those of the device's clock in ordinary steps. Before each step, an asynchronous device gets
// other work, so that it rarely waits for the host; if it still waits, the op's time includes that. Each op's
// time includes two timestamps, see Limits::empty_seconds.
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

// Mean over the profiled steps.
struct Cost {
  double calls = 0.0;
  double seconds = 0.0;
  double bytes = 0.0, flop = 0.0;  // lower bound on memory traffic; FLOP of products
  double bound = 0.0;              // minimum seconds by the limits, summed over calls

  // 0 if the time is 0.
  double bytes_per_second() const { return seconds > 0.0 ? bytes / seconds : 0.0; }
  double flops() const { return seconds > 0.0 ? flop / seconds : 0.0; }
  // bound / time; above 1 if a cache held the inputs.
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
  std::string shapes;      // of the forward call, also for a backward
  std::string algorithms;  // of convolutions on a CPU, see Call; else ""
  Cost cost;
  std::vector<OpCost> parts;  // products of a backward, which `cost` includes
};

struct Profile {
  int steps = 0;
  double step_seconds = 0.0;                                      // from the first timestamp to the last
  std::array<double, train::kStageNames.size()> stage_seconds{};  // of observed stages
  Cost ops;                                                       // of all ops and the update
  std::vector<FamilyCost> families;                               // by name, forward first
  std::vector<OpCost> slowest;                                    // all ops, in descending order of time
  Limits limits;

  // Time outside of ops, such as accumulation of gradients and idle time.
  double rest_seconds() const { return step_seconds - ops.seconds; }
};

// Calls `run_step`, an ordinary step whose stages `stages` observes, once for warm-up and then `steps` times.
Profile measure(Backend& backend, std::int64_t update_bytes, train::StageTimer& stages, int steps,
                const std::function<void()>& run_step);

// In milliseconds, GB/s, TFLOP/s and shares between 0 and 1; tests/device/profile_test.cpp lists all keys.
nlohmann::ordered_json to_json(const Profile& profile);
// Tables for a terminal.
void print(const Profile& profile);

}  // namespace tandem::profile
