// Files that are whole or not there: written beside their place, synchronised, then renamed.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::train {

// Writes a new file and synchronises it with the disk; throws VendorError naming the path and the system's
// reason.
void write_synchronised(const std::string& path, std::span<const std::string_view> parts);
// Makes what was created, renamed or removed in `folder` durable. Throws VendorError.
void synchronise_folder(const std::filesystem::path& folder);

// Replaces `path`; throws VendorError naming the path and the system's reason, and leaves the old file in
// place. Removes what was abandoned of writing it before.
void write_atomically(const std::string& path, std::string_view contents);
// The same for contents in several parts.
void write_atomically(const std::string& path, std::span<const std::string_view> parts);

// What files are called that are not whole yet, "NAME.tmp-PID", and whether `path` is one; those of a thread
// end in "-TID", too.
std::string name_while_writing(const std::string& path);
bool is_being_written(const std::filesystem::path& path);
// Whether it was left by a process that is gone. One that was written to within the hour is not: its process
// may be of another machine, or another container.
bool is_abandoned(const std::filesystem::path& path);
// Removes the abandoned files of a folder whose names begin with `prefix`. What cannot be removed stays.
void remove_abandoned(const std::filesystem::path& folder, const std::string& prefix = "");

// What a LineFile does with a line that the system does not take.
enum class OnWriteError {
  fail,  // throws; the lines before it are in the file
  keep,  // keeps the line, tries again with the next one, and says so in `trouble`
};

// Appends whole lines; every line is given to the system before `add` returns.
class LineFile {
 public:
  explicit LineFile(const std::string& path, OnWriteError on_error = OnWriteError::fail);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Throws VendorError (see OnWriteError).
  void add(std::string line);
  // Why lines are kept back at the moment; nothing while none are.
  const std::optional<std::string>& trouble() const { return trouble_; }

 private:
  std::string path_;
  OnWriteError on_error_;
  int file_;
  std::string kept_;  // not written yet; may begin inside a line
  std::optional<std::string> trouble_;
};

}  // namespace tandem::train
