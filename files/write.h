// Atomic writing: files are written under a temporary name, synchronised with the disk, then renamed.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::files {

// Writes a new file and synchronises it with the disk; throws VendorError with the path and the system's
// reason.
void write_synchronised(const std::string& path, std::span<const std::string_view> parts);
// Synchronises an existing file with the disk. Throws VendorError.
void synchronise_file(const std::string& path);
// Makes creations, renames and removals in `folder` durable. Throws VendorError.
void synchronise_folder(const std::filesystem::path& folder);

// Creates a folder and its parents if they do not exist; does nothing for an empty path. Throws VendorError
// with the path and the system's reason.
void make_folder(const std::filesystem::path& folder);

// Replaces `path`. Throws VendorError with the path and the system's reason; the old file stays then. Removes
// abandoned temporary files of the path.
void write_atomically(const std::string& path, std::string_view contents);
// The same for contents in several parts.
void write_atomically(const std::string& path, std::span<const std::string_view> parts);

// Temporary name "NAME.tmp-PID", and whether `path` has one; names of a thread also end in "-TID".
std::string name_while_writing(const std::string& path);
bool is_being_written(const std::filesystem::path& path);
// Whether its process has ended. False within an hour of the last write, since the process may run on another
// machine or in another container.
bool is_abandoned(const std::filesystem::path& path);
// Removes abandoned files in a folder whose names start with `prefix`; ignores errors.
void remove_abandoned(const std::filesystem::path& folder, const std::string& prefix = "");

// Appends whole lines; each line is passed to the system before `add` returns. Lines that cannot be written
// are kept and tried again with the next one.
class LineFile {
 public:
  // Throws VendorError if the file cannot be opened.
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void add(std::string_view line);
  // Error because of which lines are kept; absent if none are.
  const std::optional<std::string>& write_error() const { return write_error_; }
  // The kept bytes; they may start inside a line.
  const std::string& kept() const { return kept_; }

 private:
  std::string path_;
  int file_;
  std::string kept_;
  std::optional<std::string> write_error_;
};

// A small file of constant length whose text changes often: it is overwritten in place, without
// synchronisation.
class SmallFile {
 public:
  // Throws VendorError if the file cannot be opened.
  explicit SmallFile(const std::string& path);
  ~SmallFile();
  SmallFile(const SmallFile&) = delete;
  SmallFile& operator=(const SmallFile&) = delete;

  void put(std::string_view text);
  // Error of the last `put`; absent if it succeeded.
  const std::optional<std::string>& write_error() const { return write_error_; }

 private:
  std::string path_;
  int file_;
  std::optional<std::string> write_error_;
};

}  // namespace tandem::files
