// The table of algorithms that a benchmark begins with, and leaves.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/config.h"
#include "core/backend.h"

namespace tandem::cli {

class AlgorithmFile {
 public:
  // Reads `path`, if it is there; else the repository's table for the device, tests/gpu/algorithms, if that
  // has one. A table of another device or library, or none, is said in one line, and algorithms are timed;
  // a file of others is left as it is. Throws UserError for a file that is no table.
  AlgorithmFile(const config::Config& config, Device device, std::string path);

  // Adds what was chosen since the last time to the file at `path`, if one was named.
  void save();

  // The table as it is now: [{"what", "choice", "ms": {NAME: MILLISECONDS}}].
  nlohmann::ordered_json to_json() const;

 private:
  void take_shipped() const;

  Backend& backend_;
  std::string path_;   // empty: none is written
  std::string saved_;  // the device's table that was
};

}  // namespace tandem::cli
