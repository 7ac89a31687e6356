// log.txt of a run: every line with its time and level, given to the system at once.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tandem::runs {

class Log {
 public:
  // Writes nothing.
  Log();
  // Appends to `path`; throws VendorError when it cannot be opened.
  explicit Log(const std::string& path);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(const std::string& text);
  void warning(const std::string& text);
  void error(const std::string& text);
  // Why lines wait at the moment, for the next one to be tried with; nothing while none do.
  const std::optional<std::string>& trouble() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // absent: nothing is written
};

}  // namespace tandem::runs
