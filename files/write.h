// Files that are whole or not there: written beside their place, synchronised, then renamed.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::files {

// Writes a new file and synchronises it with the disk; throws VendorError naming the path and the system's
// reason.
void write_synchronised(const std::string& path, std::span<const std::string_view> parts);
// Synchronises a file that is there with the disk. Throws VendorError.
void synchronise_file(const std::string& path);
// Makes what was created, renamed or removed in `folder` durable. Throws VendorError.
void synchronise_folder(const std::filesystem::path& folder);

// Makes a folder, and those above it, where it is not there yet; none for an empty path. Throws VendorError
// naming it and the system's reason.
void make_folder(const std::filesystem::path& folder);

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

// Appends whole lines; every line is given to the system before `add` returns. Lines that the system does not
// take are kept, and tried again with the next one.
class LineFile {
 public:
  // Throws VendorError when the file cannot be opened.
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void add(std::string_view line);
  // Why lines are kept back at the moment; nothing while none are.
  const std::optional<std::string>& write_error() const { return write_error_; }
  // What is kept back; may begin inside a line.
  const std::string& kept() const { return kept_; }

 private:
  std::string path_;
  int file_;
  std::string kept_;
  std::optional<std::string> write_error_;
};

// A small file whose text changes often and keeps its length: it is written over in place, not synchronised.
class SmallFile {
 public:
  // Throws VendorError when the file cannot be opened.
  explicit SmallFile(const std::string& path);
  ~SmallFile();
  SmallFile(const SmallFile&) = delete;
  SmallFile& operator=(const SmallFile&) = delete;

  void put(std::string_view text);
  // Why the last `put` failed; nothing when it did not.
  const std::optional<std::string>& write_error() const { return write_error_; }

 private:
  std::string path_;
  int file_;
  std::optional<std::string> write_error_;
};

}  // namespace tandem::files
