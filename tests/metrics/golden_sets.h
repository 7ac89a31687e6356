// tests/golden/coco_metric.json, one entry of `sets` for each DrawnSet.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/paths.h"

namespace tandem::test {

inline const nlohmann::json& golden_sets() {
  static const nlohmann::json file =
      nlohmann::json::parse(std::ifstream(source_path("tests/golden/coco_metric.json")));
  return file.at("sets");
}

}  // namespace tandem::test
