// RunRecord: the content of a run directory, read from metrics.jsonl, also of damaged and resumed runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runs/metrics.h"

namespace tandem::runs {

using Json = nlohmann::ordered_json;

// A missing or null number is NaN.
struct Session {
  std::string time, version, precision, device;
  std::int64_t parameters = 0;
  std::int64_t step = 0;  // steps before this session
  tasks::MetricKinds kinds;
};

// GradientsEvent as metrics.jsonl stores it.
struct GradientExponents {
  std::int64_t step = 0;
  double loss_scale = 1.0;
  std::int64_t total = 0, zeros = 0, flushed = 0;
  std::optional<int> saving_scale;  // log2
  int first = 0;
  std::vector<double> counts;
};

struct RunRecord {
  std::filesystem::path path;
  std::string name;          // of the directory
  Json config, environment;  // null if the file is missing or damaged
  std::vector<Session> sessions;
  std::vector<StepEvent> steps;  // by step and phase, the last event of each
  std::vector<EvalEvent> evals;  // by step, the last event of a step and split
  std::vector<OverflowEvent> overflows;
  std::vector<PictureEvent> pictures;          // by step; each file once
  std::optional<GradientExponents> gradients;  // the last ones
  std::optional<EndEvent> end;                 // of the last session; absent if it is running or was killed
  double wall_s = 0.0;                         // sum over ended sessions
  std::size_t peak_memory_bytes = 0;           // maximum over them
  std::vector<std::string> notes;              // reason of failure, damaged or missing files

  // "completed", "interrupted", "failed", "diverged", or "not ended".
  std::string status() const;
  std::int64_t skipped() const;
  // Phases with steps, in their order in an iteration; {""} for one phase.
  std::vector<std::string> phases() const;
  // Kind of an evaluated metric, as recorded.
  tasks::MetricKind kind_of(const std::string& metric) const;
  // Attempted steps.
  std::int64_t last_step() const;
};

// Reads a run directory. Unreadable lines are skipped, with a note. Throws UserError if there is no such
// directory, no metrics.jsonl in it, or no event in that.
RunRecord read_run(const std::string& path);

// The same from the text of metrics.jsonl alone; `where` names it in errors.
void read_metrics(RunRecord& run, const std::string& text, const std::string& where);

}  // namespace tandem::runs
