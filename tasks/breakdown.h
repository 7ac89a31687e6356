// Per-class metrics of an evaluation.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::tasks {

// File of a run with the breakdown of its newest evaluation.
inline constexpr const char* kBreakdownFile = "by_class.json";

struct Breakdown {
  // One curve per class, sampled at equal steps of x from 0 to 1; empty: the class has none.
  struct Curves {
    std::string title, x, y;  // "Precision and recall", …
    std::vector<std::vector<double>> values;
  };

  std::vector<std::string> names;
  // By name, shares; NaN: undefined for the class.
  std::vector<std::pair<std::string, std::vector<double>>> figures;
  std::vector<std::int64_t> samples{};  // true samples of each class; empty: not counted
  Curves curves{};                      // without a title: none
};

nlohmann::ordered_json to_json(const Breakdown& breakdown);
// Empty if `json` was not written by to_json.
std::optional<Breakdown> breakdown_from(const nlohmann::ordered_json& json);

}  // namespace tandem::tasks
