// Experiment: the arms of a comparison with their configurations, seeds, margin and output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/load.h"

namespace tandem::compare {

inline constexpr const char* kBaseline = "fp32";
inline constexpr const char* kNull = "fp32_null";

struct Arm {
  std::string name;       // a folder name: letters, digits, "_", "-" and "."
  std::string precision;  // as in a run's record: "amp_fp16", "O2/fp16"
  bool emulated = false;  // FP16 on a CPU: exact, but slower than on a GPU
  // Command-line arguments that turn the user's configuration into that of the arm.
  std::vector<std::string> overrides;
};

struct Request {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;  // empty: runs/NAME-compare
};

struct Experiment {
  std::string config;                  // as given: a path or a shipped name
  std::string name;                    // of the run
  std::vector<std::string> overrides;  // as given
  std::vector<Arm> arms;               // fp32 first
  std::vector<std::int64_t> seeds;
  std::string metric;   // checkpoint.best
  bool percent = true;  // the metric and the margin are in percent
  bool greater_is_better = true;
  double margin = 0.5;
  bool default_margin = false;
  std::int64_t speed_steps = 50, speed_rounds = 5;
  std::filesystem::path out;

  std::filesystem::path arm_directory(const Arm& arm) const { return out / "arms" / arm.name; }
  std::filesystem::path run_directory(const Arm& arm, std::int64_t seed) const;
  // Arguments after CONFIG for a run of the arm; without a seed, for a speed measurement.
  std::vector<std::string> arguments(const Arm& arm) const;
  std::vector<std::string> arguments(const Arm& arm, std::int64_t seed) const;
};

// Checks the configuration and every arm; throws UserError with the arm and the line. Does not read data or
// write files.
Experiment make_experiment(const Request& request);

}  // namespace tandem::compare
