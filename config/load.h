// The checked configuration of a command line, in one call and without touching any data.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace tandem::config {

struct Loaded {
  Config config;
  Value given;       // what files and command line say, with origins
  std::string path;  // the file
  std::string stem;  // its name without folder and ".json"; of a run's config.json the name of the run
  std::string plan;  // what the file of precision.plan holds, once somebody has read or made it
};

// Throws UserError with the first problem; one line.
Loaded load(const std::string& config, const std::vector<std::string>& overrides = {});

// All problems, for `tandem validate`. Files that cannot be read or parsed still throw.
std::vector<Problem> problems_of(const std::string& config, const std::vector<std::string>& overrides = {});

// The whole configuration with every default written out; loading it again gives an equal one.
Json resolved(const Config& config);

// "configs/a.json:7" for "model.layers[3].kernel": where that value, or the nearest thing around it, was
// written.
std::string place_of(const Value& root, const std::string& path);

// One line a key: "data.batch_size = 128    configs/a.json:7".
std::string with_origins(const Loaded& loaded);

}  // namespace tandem::config
