// Loading of a checked configuration from a command line, without reading data.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace tandem::config {

struct Loaded {
  Config config;
  Value given;       // values from files and command line, with origins
  std::string path;  // of the file
  std::string stem;  // file name without ".json"; for a run's config.json, the name of the run
  std::string plan;  // content of the file precision.plan, if it was read or made
};

// Throws UserError with one line about the first problem.
Loaded load(const std::string& config, const std::vector<std::string>& overrides = {});

// All problems, for `tandem validate`. Unreadable files and invalid JSON still throw.
std::vector<Problem> problems_of(const std::string& config, const std::vector<std::string>& overrides = {});

// The whole configuration with all defaults; loading it gives an equal configuration.
Json resolved(const Config& config);

// Place of a value, or of the nearest enclosing one: "configs/a.json:7" for "model.layers[3].kernel".
std::string place_of(const Value& root, const std::string& path);

// One line per key: "data.batch_size = 128    configs/a.json:7".
std::string with_origins(const Loaded& loaded);

}  // namespace tandem::config
