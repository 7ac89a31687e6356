// RunDirectory: the directory to which a run writes.
//
//   config.json       resolved configuration; `tandem train` accepts it
//   environment.json  build, libraries, CPU, command line, seed
//   metrics.jsonl     one event per line (runs/metrics.h); checkpoints/ has a copy
//   metrics.jsonl.sha256  its digest, updated with every line (runs/metrics_record.h)
//   metrics.csv       the same steps and evaluations as a table, written at the end (runs/metrics_table.h)
//   tensorboard/      the same for TensorBoard, one events.out.tfevents.* per session (runs/tensorboard)
//   report.html       output of `tandem report`
//   plan.json         dtypes of every op, with precision.plan (amp/plan/plan_file.h)
//   calibration.json  with precision.scaler.mode calibrated: window of loss scales of every layer; with mode
//                     segments also the segments, which a resumed run reads
//   log.txt           printed messages with times
//   algorithms.txt    choices among a GPU's algorithms, if any were timed
//   checkpoints/      see runs/checkpoint_store.h
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::runs {

inline constexpr const char* kAlgorithmsFile = "algorithms.txt";

class RunDirectory {
 public:
  // Creates a new directory from `pattern`, in which {name} and {time} (20260131-235959, local) are replaced.
  // It appears atomically, with `config` as its config.json. If it exists, "-2", "-3"… is added. Removes
  // unfinished directories of killed processes beside it. Throws UserError for an unknown {word}, VendorError
  // if it cannot be created.
  static RunDirectory create(const std::string& pattern, const std::string& name, std::string_view config);
  // Whether `path` is a directory with a config.json.
  static bool is_run(const std::filesystem::path& path);
  // An existing run; throws UserError if it has no config.json.
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

// Throws UserError that names `option` if writing to the path would replace a part of a run: its directory,
// checkpoints, event files, configuration, metrics, log, plan or calibration. Its report, its exports and
// files of other names may be written there.
void require_no_file_of_run(const std::filesystem::path& path, std::string_view option);

// Lock of a run that one process trains; the system releases it at the end of the process.
class RunLock {
 public:
  // Throws UserError if another process holds it.
  explicit RunLock(const RunDirectory& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int folder_;
};

}  // namespace tandem::runs
