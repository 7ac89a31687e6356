// metrics.jsonl as a run keeps it: the file, a copy of it with the checkpoints, and a running digest. A line
// is given to the file, then to the copy, then the digest of all lines is written, so that what happens to
// one of the three afterwards is found, and mended, when the run goes on.
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

// What metrics.jsonl held when a checkpoint was taken: by these the checkpoint knows it again.
struct MetricsMark {
  std::int64_t bytes = 0;
  std::string sha256;     // of so many bytes
  std::string unwritten;  // the last of them, where the system had not taken them; up to 1 MiB

  std::string to_json() const;
  // Nothing when the text is no mark.
  static std::optional<MetricsMark> from_json(const std::string& text);
};

class MetricsRecord {
 public:
  // Goes on behind what the files hold. Throws VendorError when they cannot be opened.
  explicit MetricsRecord(const RunDirectory& directory);

  // Never throws: what the system does not take waits for the next line.
  void add(const std::string& line);
  // Why lines wait at the moment; nothing while none do.
  std::optional<std::string> trouble() const;
  MetricsMark mark() const;

 private:
  files::LineFile file_, copy_;
  files::SmallFile digest_file_;
  files::Sha256 digest_;
  std::int64_t bytes_ = 0;
};

// The digest in metrics.jsonl.sha256, a line as `sha256sum -c` reads it; "" when there is none.
std::string running_digest(const std::string& path);
// Whether it is that of the text. The last lines of a text may be newer than its digest.
bool has_running_digest(std::string_view text, std::string_view digest);

// A checkpoint that is there.
struct SavedStep {
  std::int64_t step = 0;
  std::string path;
};

// Where a run goes on.
struct MetricsPosition {
  std::int64_t step = 0;
  bool epoch_trained = false;       // that step was the last of its epoch
  bool evaluated = false;           // the evaluation at that step has been done
  std::optional<MetricsMark> mark;  // of the checkpoint; absent where there is none, or it is an older one
  std::vector<SavedStep> checkpoints{};  // all up to that step
};

// The text without what happens again when the run goes on: later events, the evaluation at that step unless
// it was done, and a line that was cut short. The gradients of an epoch's last step stay: nobody has them
// again. `unreadable` counts the lines that are no events.
std::string without_later_events(const std::string& text, const MetricsPosition& position,
                                 std::int64_t& unreadable);

// Brings all three files to where the run goes on: chooses what is as it was written, takes out what happens
// again, and adds the checkpoints that nothing was written of. Returns a sentence for everything that was
// found wrong. Throws VendorError when the files cannot be written.
std::vector<std::string> mend_metrics(const RunDirectory& directory, const MetricsPosition& position);

}  // namespace tandem::runs
