// The folder checkpoints/ of a run: whole checkpoints and two names that point at them.
//
//   step-120/            what the run was after its 120th step
//     weights.safetensors  to compute with; the averages, where there are any
//     state.safetensors    the tensors that it takes to go on
//     run.json             where the run stands: epoch, place in it, best figure, configuration; in older
//                          runs the metadata of state.safetensors
//     metrics.json         what metrics.jsonl held then (runs/metrics_record.h); absent in older runs
//     SHA256SUMS           digests of all of them, as `sha256sum -c` reads them
//   latest, best         a line each: "step-120"
//   metrics.jsonl        a copy of the run's, synchronised with the disk before each checkpoint
//
// A checkpoint appears at once: it is written as step-120.tmp-PID, its files and the folder are synchronised
// with the disk, the folder is renamed, the rename is synchronised, `latest` is replaced in the same way, and
// only then old checkpoints are removed. So a process that is killed at any instant, and a write that fails,
// leave every checkpoint that there was. One whose tensors stay, and whose place in the run does not, is
// replaced in the same way, by a folder with further links to the same files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::runs {

// The file of a checkpoint that is computed with.
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
  static std::optional<std::int64_t> step_of(std::string_view name);  // nothing for other names
  static bool is_name(std::string_view text) { return step_of(text).has_value(); }

  // Writes a checkpoint, replacing one of that name; on return it is durable. `kept`: files that the replaced
  // one has, which stay as they are, with their digests. Throws VendorError with the path and the system's
  // reason, and leaves what there was.
  void write(const std::string& checkpoint, const std::vector<File>& files,
             const std::vector<std::string>& kept = {}) const;
  // Makes `pointer`, "latest" or "best", mean a checkpoint, unless it does already.
  void point(const std::string& pointer, const std::string& checkpoint) const;
  // What it means; nothing when there is no such pointer, or it names no checkpoint.
  std::optional<std::string> pointed_at(const std::string& pointer) const;

  // The one that `latest` means, then the others, newest first; damaged ones included.
  std::vector<std::string> newest_first() const;
  // What is wrong with a checkpoint: a missing file, a digest that differs; nothing when it is whole. Reads
  // every byte.
  std::optional<std::string> damage(const std::string& checkpoint) const;

  // Keeps `latest` and the newest before it, `keep` in all, and those in `spared`. What is newer than
  // `latest` goes: the run has gone on from an older checkpoint.
  void prune(std::int64_t keep, const std::vector<std::string>& spared) const;
  // Removes what processes that were killed have left half written or half removed. A checkpoint whose place
  // was to be taken at that instant is put back.
  void remove_leftovers() const;

 private:
  void remove(const std::string& checkpoint) const;

  std::filesystem::path folder_;
};

}  // namespace tandem::runs
