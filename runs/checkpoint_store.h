// CheckpointStore: the folder checkpoints/ of a run, with complete checkpoints and two pointers to them.
//
//   step-120/            state of the run after its 120th step
//     weights.safetensors  weights for inference: the averages, if there are any
//     state.safetensors    tensors for a resume
//     run.json             run state: epoch, position in it, best metric, configuration; in the metadata of
//                          state.safetensors in older runs
//     metrics.json         mark of metrics.jsonl at that time (runs/metrics_record.h); absent in older runs
//     SHA256SUMS           digests of all these files, in the format of `sha256sum -c`
//   latest, best         one line each: "step-120"
//   metrics.jsonl        copy of the run's file, synchronised with the disk before each checkpoint
//
// Writing is atomic: files and folder are written as step-120.tmp-PID and synchronised with the disk, the
// folder is renamed, the rename is synchronised, `latest` is replaced in the same way, and only then old
// checkpoints are removed. A kill at any time and a failed write therefore keep all previous checkpoints. If
// only the run state of a checkpoint changes, the new folder has hard links to the same tensor files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::runs {

// Names of the checkpoints that a run removes after a save. `checkpoints`: the latest, then the others,
// newest first. Kept are the first `keep` from the latest on, and those in `spared`. A checkpoint newer than
// the latest is removed: the run was resumed from an older one.
std::vector<std::string> superseded(std::span<const std::string> checkpoints, std::int64_t keep,
                                    std::span<const std::string> spared);

// The file with the weights for inference.
inline constexpr const char* kWeightsFile = "weights.safetensors";

class CheckpointStore {
 public:
  struct File {
    std::string name;
    std::string_view bytes;
  };

  explicit CheckpointStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path(const std::string& checkpoint) const { return folder_ / checkpoint; }
  static std::string name_of(std::int64_t step);                      // "step-120"
  static std::optional<std::int64_t> step_of(std::string_view name);  // absent for other names
  static bool is_name(std::string_view text) { return step_of(text).has_value(); }

  // Writes a checkpoint, replacing one of that name; on return it is durable. `kept`: files of the replaced
  // checkpoint that are taken over with their digests. Throws VendorError with the path and the system's
  // reason; previous checkpoints stay.
  void write(const std::string& checkpoint, const std::vector<File>& files,
             const std::vector<std::string>& kept = {}) const;
  // Sets `pointer`, "latest" or "best", to a checkpoint, unless it is set to it already.
  void point(const std::string& pointer, const std::string& checkpoint) const;
  // Target of the pointer; absent if the pointer is missing or names no checkpoint.
  std::optional<std::string> pointed_at(const std::string& pointer) const;

  // The target of `latest`, then the others, newest first, including damaged ones.
  std::vector<std::string> newest_first() const;
  // Damage of a checkpoint: a missing file or a digest that differs; absent if it is intact. Reads every
  // byte.
  std::optional<std::string> damage(const std::string& checkpoint) const;

  // Removes the superseded checkpoints.
  void prune(std::int64_t keep, const std::vector<std::string>& spared) const;
  // Removes unfinished writes and removals of killed processes. Restores a checkpoint whose replacement was
  // interrupted.
  void remove_leftovers() const;

 private:
  void remove(const std::string& checkpoint) const;

  std::filesystem::path folder_;
};

}  // namespace tandem::runs
