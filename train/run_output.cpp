#include "train/run_output.h"

#include <fmt/core.h>

#include <utility>

#include "core/error.h"
#include "files/output.h"
#include "files/write.h"

namespace tandem::train {

RunOutput::RunOutput(const runs::RunDirectory* directory, const config::Config& config, std::string speaker)
    : directory_(directory),
      speaker_(std::move(speaker)),
      survives_write_errors_(config.checkpoint.on_save_error == "continue"),
      metrics_(directory, config),
      log_(directory ? runs::Log(directory->log()) : runs::Log()) {}

void RunOutput::say(const std::string& text) {
  if (progress_) progress_->line(text);
  log_.info(text);
}

void RunOutput::say(const std::vector<LinePart>& line) {
  if (progress_) progress_->line(line);
  log_.info(joined(line));
}

void RunOutput::warn(const std::string& text) {
  if (progress_) {
    progress_->line("warning: " + text);
  } else {
    output::print_error(speaker_ + "warning: " + text);
  }
  log_.warning(text);
}

void RunOutput::report_skipped(const std::string& text) {
  if (progress_) progress_->line(text);
  if (!speaker_.empty()) output::print_error(speaker_ + text);
  log_.warning(text);
}

std::optional<std::string> RunOutput::write(const std::filesystem::path& file, const std::string& text) {
  if (!directory_) return {};
  try {
    files::write_atomically(directory_->path() / file, text);
    return {};
  } catch (const VendorError& error) {
    return write_error_ = error.what();
  }
}

const std::optional<std::string>& RunOutput::fatal_error() {
  const auto now = metrics_.write_error() ? metrics_.write_error() : write_error_;
  if (survives_write_errors_) {
    warn_once(now, last_warning_, "training goes on (checkpoint.on_save_error)");
  } else if (now && !fatal_error_) {
    fatal_error_ = now;
  }
  warn_once(log_.write_error(), last_log_warning_, "training goes on");
  return fatal_error_;
}

void RunOutput::warn_once(const std::optional<std::string>& reason, std::optional<std::string>& last,
                          const char* consequence) {
  if (reason != std::exchange(last, reason) && reason) warn(fmt::format("{}; {}", *reason, consequence));
}

}  // namespace tandem::train
