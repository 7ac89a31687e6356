// log.txt of a run: lines with time and level, passed to the system at once.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tandem::runs {

class Log {
 public:
  Log();  // writes nothing
  // Appends to `path`; throws VendorError if it cannot be opened.
  explicit Log(const std::string& path);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(const std::string& text);
  void warning(const std::string& text);
  void error(const std::string& text);
  // Error because of which lines wait for the next write; absent if none wait.
  const std::optional<std::string>& write_error() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // null: writes nothing
};

}  // namespace tandem::runs
