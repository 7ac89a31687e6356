// MetricsRecord: metrics.jsonl with a copy in checkpoints/ and a running digest. Each line is written to the
// file, then to the copy, then the digest of all lines is written. Damage to one of the three is therefore
// found and repaired on resume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/digest.h"
#include "files/write.h"
#include "runs/run_directory.h"

namespace tandem::runs {

// Mark of metrics.jsonl in a checkpoint, to recognise its content.
struct MetricsMark {
  std::int64_t bytes = 0;
  std::string sha256;     // of these bytes
  std::string unwritten;  // last part of them that could not be written; at most 1 MiB

  std::string to_json() const;
  // Absent if the text is not a mark.
  static std::optional<MetricsMark> from_json(const std::string& text);
};

class MetricsRecord {
 public:
  // Appends to the files. Throws VendorError if they cannot be opened.
  explicit MetricsRecord(const RunDirectory& directory);

  // Never throws: lines that cannot be written are tried again with the next line.
  void add(const std::string& line);
  // Error because of which lines wait; absent if none wait.
  std::optional<std::string> write_error() const;
  MetricsMark mark() const;

 private:
  files::LineFile file_, copy_;
  files::SmallFile digest_file_;
  files::Sha256 digest_;
  std::int64_t bytes_ = 0;
};

// The digest in metrics.jsonl.sha256, a line in the format of `sha256sum -c`; "" if there is none.
std::string running_digest(const std::string& path);
// Whether it is the digest of the text, possibly without its last lines.
bool has_running_digest(std::string_view text, std::string_view digest);

// An existing checkpoint.
struct SavedStep {
  std::int64_t step = 0;
  std::string path;
};

// Position at which a run resumes.
struct MetricsPosition {
  std::int64_t step = 0;
  bool epoch_trained = false;            // that step was the last of its epoch
  bool evaluated = false;                // the step has been evaluated
  std::optional<MetricsMark> mark;       // from the checkpoint; absent without one, or in older versions
  std::vector<SavedStep> checkpoints{};  // up to that step
};

// The text without events that the resumed run writes again: later events, the evaluation at that step unless
// it was done, and an incomplete last line. The gradients of an epoch's last step stay, since the resumed run
// does not have them. `unreadable` counts lines that are not events.
std::string without_later_events(const std::string& text, const MetricsPosition& position,
                                 std::int64_t& unreadable);

// Restores all three files to the resumed position: uses the intact ones, removes events that will be written
// again, and adds missing checkpoint events. Returns a sentence for each defect. Throws VendorError if the
// files cannot be written.
std::vector<std::string> repair_metrics(const RunDirectory& directory, const MetricsPosition& position);

}  // namespace tandem::runs
