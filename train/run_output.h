// RunOutput: the output of a run: terminal, log.txt, metrics.jsonl and other files of its directory. Write
// errors throw nothing here; fatal_error() returns them between two steps.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runs/log.h"
#include "runs/run_writer.h"
#include "train/progress.h"

namespace tandem::train {

class RunOutput {
 public:
  // `directory`: null on ranks that write nothing. `speaker`: "", or "rank 1 of 4: " on other ranks than the
  // first. Throws VendorError if log or metrics cannot be opened.
  RunOutput(const runs::RunDirectory* directory, const config::Config& config, std::string speaker);

  const runs::RunDirectory* directory() const { return directory_; }
  runs::RunWriter& metrics() { return metrics_; }
  runs::Log& log() { return log_; }
  // Shows a bar and messages on the terminal from now on; not called for quiet runs.
  void show_progress() { progress_ = std::make_unique<Progress>(); }
  Progress* progress() { return progress_.get(); }

  void say(const std::string& text);
  void say(const std::vector<LinePart>& line);
  // Prints even if the run is quiet.
  void warn(const std::string& text);
  // Warning of unreadable samples. Quiet runs print it only on other ranks than the first.
  void report_skipped(const std::string& text);

  // Writes a file atomically; the path is relative to the run directory. Returns the error, if any.
  std::optional<std::string> write(const std::filesystem::path& file, const std::string& text);

  // checkpoint.on_save_error=continue: the run goes on after write errors.
  bool survives_write_errors() const { return survives_write_errors_; }
  // The first write error that has to end the run after a save. Runs that survive write errors get a warning
  // once for each reason instead. Errors of the log never end a run.
  const std::optional<std::string>& fatal_error();

 private:
  void warn_once(const std::optional<std::string>& reason, std::optional<std::string>& last,
                 const char* consequence);

  const runs::RunDirectory* const directory_;
  const std::string speaker_;
  const bool survives_write_errors_;
  runs::RunWriter metrics_;
  runs::Log log_;
  std::unique_ptr<Progress> progress_;      // null if quiet
  std::optional<std::string> write_error_;  // last error of write()
  std::optional<std::string> fatal_error_;
  std::optional<std::string> last_warning_, last_log_warning_;
};

}  // namespace tandem::train
