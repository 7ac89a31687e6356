// The one directory that a run writes to.
//
//   config.json       resolved; reruns as it is
//   environment.json  build, libraries, CPU, command line, seed
//   metrics.jsonl     one event a line (runs/metrics.h); a copy lies with the checkpoints
//   metrics.jsonl.sha256  its digest, which goes with every line (runs/metrics_record.h)
//   metrics.csv       the same steps and evaluations as a table, written at the end (runs/metrics_table.h)
//   tensorboard/      the same for TensorBoard, one events.out.tfevents.* a session (runs/tensorboard)
//   report.html       what `tandem report` made of it
//   plan.json         the types of every op, where precision.plan has one (amp/plan/plan_file.h)
//   calibration.json  of precision.scaler.mode calibrated: window of loss scales of every layer; of mode
//                     segments also the segments, which a run that is gone on with takes from it
//   log.txt           what was printed, with times
//   algorithms.txt    which of a GPU's algorithms was chosen for what, where any were timed
//   checkpoints/      see runs/checkpoint_store.h
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::runs {

inline constexpr const char* kAlgorithmsFile = "algorithms.txt";

class RunDirectory {
 public:
  // Makes a new directory from `pattern`, in which {name} and {time} (20260131-235959, local) are replaced;
  // it appears at once, with `config` as its config.json. When it exists already, "-2", "-3"… is added.
  // Removes what processes that are gone left beside it of making theirs.
  // Throws UserError for an unknown {word}, VendorError when it cannot be made.
  static RunDirectory create(const std::string& pattern, const std::string& name, std::string_view config);
  // Whether `path` is a directory with a config.json.
  static bool is_run(const std::filesystem::path& path);
  // An existing run; throws UserError unless it holds a config.json.
  static RunDirectory open(const std::string& path);

  const std::filesystem::path& path() const { return path_; }
  std::string config() const { return path_ / "config.json"; }
  std::string environment() const { return path_ / "environment.json"; }
  std::string metrics() const { return path_ / "metrics.jsonl"; }
  std::string metrics_digest() const { return path_ / "metrics.jsonl.sha256"; }
  std::string metrics_copy() const { return checkpoints() / "metrics.jsonl"; }
  std::string metrics_csv() const { return path_ / "metrics.csv"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::string report() const { return path_ / "report.html"; }
  std::string plan() const { return path_ / "plan.json"; }
  std::string calibration() const { return path_ / "calibration.json"; }
  std::string log() const { return path_ / "log.txt"; }
  std::string algorithms() const { return path_ / kAlgorithmsFile; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Throws UserError, in which `option` says where the path was given, where writing to it would replace what a
// run is made of: the directory of a run itself, its checkpoints and event files, its configuration, metrics,
// log, plan and calibration. Its report, its exports and files of other names may be written there.
void require_no_file_of_run(const std::filesystem::path& path, std::string_view option);

// One process at a time trains a run; the system lets go of the lock however the process ends.
class RunLock {
 public:
  // Throws UserError when another process has it.
  explicit RunLock(const RunDirectory& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int folder_;
};

}  // namespace tandem::runs
