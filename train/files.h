// Files that are whole or not there: written beside their place, synchronised, then renamed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem::train {

// Replaces `path`; throws Error naming the path and the system's reason, and leaves the old file in place.
void write_atomically(const std::string& path, std::string_view contents);
// The same for contents in several parts.
void write_atomically(const std::string& path, std::span<const std::string_view> parts);

// Appends whole lines; every line is given to the system before `add` returns.
class LineFile {
 public:
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void add(std::string line);

 private:
  std::string path_;
  int file_;
};

}  // namespace tandem::train
