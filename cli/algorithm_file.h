// AlgorithmFile: the table of algorithms that a benchmark reads and updates.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/config.h"
#include "core/backend.h"

namespace tandem::cli {

class AlgorithmFile {
 public:
  // Reads `path` if it exists, else the repository's table for the device in tests/gpu/algorithms, if there
  // is one. If there is no table for this device and library, prints a remark; algorithms are then timed, and
  // a file for others stays unchanged. Throws UserError for a file that is not a table.
  AlgorithmFile(const config::Config& config, Device device, std::string path);

  // Adds new choices to the file at `path`, if one was given.
  void save();

  // The current table: [{"what", "choice", "ms": {NAME: MILLISECONDS}}].
  nlohmann::ordered_json to_json() const;

 private:
  void take_shipped() const;

  Backend& backend_;
  std::string path_;   // empty: no file is written
  std::string saved_;  // the device's table at the last save
};

}  // namespace tandem::cli
