// RunOutput: what a run says to people and writes of its course: the terminal, log.txt, metrics.jsonl and
// single files of its directory. A system that refuses to write throws nothing here: hindrance() says so
// between two steps.
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
  // `directory`: nullptr on ranks that write nothing. `speaker`: "", or of a rank that is not the first
  // "rank 1 of 4: ". Throws VendorError when log or metrics cannot be opened.
  RunOutput(const runs::RunDirectory* directory, const config::Config& config, std::string speaker);

  const runs::RunDirectory* directory() const { return directory_; }
  runs::RunWriter& metrics() { return metrics_; }
  runs::Log& log() { return log_; }
  // From now on a person sees a bar and what is said; never where the run is quiet.
  void show_progress() { progress_ = std::make_unique<Progress>(); }
  Progress* progress() { return progress_.get(); }

  void say(const std::string& text);
  void say(const std::vector<LinePart>& line);
  // To the user even when quiet.
  void warn(const std::string& text);
  // A warning of samples that could not be read: to the user of a quiet run by other ranks than the first
  // alone.
  void tell_skipped(const std::string& text);

  // Writes a whole file by its path within the run directory. Returns why it is not there.
  std::optional<std::string> write(const std::filesystem::path& file, const std::string& text);

  // checkpoint.on_save_error: the run goes on where its files cannot be written.
  bool survives_write_errors() const { return survives_write_errors_; }
  // Why the run has to end, saved: its course could not be written; it stays. Where the run survives that, a
  // warning instead, once for each reason. The log alone ends no run.
  const std::optional<std::string>& hindrance();

 private:
  // What was warned of last.
  using Told = std::optional<std::string>;
  void warn_once(const std::optional<std::string>& reason, Told& told, const char* consequence);

  const runs::RunDirectory* const directory_;
  const std::string speaker_;
  const bool survives_write_errors_;
  runs::RunWriter metrics_;
  runs::Log log_;
  std::unique_ptr<Progress> progress_;  // absent when quiet
  std::optional<std::string> trouble_;  // of files that write() was given
  std::optional<std::string> hindrance_;
  Told told_, told_of_log_;
};

}  // namespace tandem::train
