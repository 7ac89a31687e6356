// A run as its directory tells it: metrics.jsonl read back, damaged and resumed ones too.
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

// A number that was null, or is absent, is NaN.
struct Session {
  std::string time, version, precision, device;
  std::int64_t parameters = 0;
  std::int64_t step = 0;  // steps before it
  tasks::MetricKinds kinds;
};

// What metrics.jsonl keeps of GradientsEvent.
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
  Json config, environment;  // null where the file is missing or damaged
  std::vector<Session> sessions;
  std::vector<StepEvent> steps;  // by step and phase, each once: what was said of it last
  std::vector<EvalEvent> evals;  // by step; of a step and split the last one
  std::vector<OverflowEvent> overflows;
  std::vector<PictureEvent> pictures;          // by step; each file once
  std::optional<GradientExponents> gradients;  // the last ones
  std::optional<EndEvent> end;                 // of the last session; absent: it runs still, or was cut off
  double wall_s = 0.0;                         // of all sessions that ended
  std::size_t peak_memory_bytes = 0;           // the greatest of them
  std::vector<std::string> notes;              // why it failed, what is damaged or missing

  // "completed", "interrupted", "failed", "diverged", or "not ended".
  std::string status() const;
  std::int64_t skipped() const;
  // The phases that have steps, in their order in an iteration; {""} where there is one.
  std::vector<std::string> phases() const;
  // What an evaluated figure is, as the run says.
  tasks::MetricKind kind_of(const std::string& metric) const;
  // Attempted steps.
  std::int64_t last_step() const;
};

// Reads a run directory. Lines that cannot be read are left out and noted. Throws UserError when there is no
// such directory, no metrics.jsonl in it, or no event in that.
RunRecord read_run(const std::string& path);

// The same from the text of metrics.jsonl alone; `where` stands in errors.
void read_metrics(RunRecord& run, const std::string& text, const std::string& where);

}  // namespace tandem::runs
