// log.txt of a run: every line with its time and level, flushed at once.
#pragma once

#include <memory>
#include <string>

namespace tandem::train {

class Log {
 public:
  // Appends to `path`.
  explicit Log(const std::string& path);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(const std::string& text);
  void warning(const std::string& text);
  void error(const std::string& text);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::train
