// Figures of each class from an evaluation.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::tasks {

// The file of a run that holds those of its newest evaluation.
inline constexpr const char* kBreakdownFile = "by_class.json";

struct Breakdown {
  // A curve for each class, of values at equal steps of x from 0 to 1; no values: the class has none.
  struct Curves {
    std::string title, x, y;  // "Precision and recall", …
    std::vector<std::vector<double>> values;
  };

  std::vector<std::string> names;
  // By name, shares; NaN: the class has none.
  std::vector<std::pair<std::string, std::vector<double>>> figures;
  std::vector<std::int64_t> samples{};  // true ones of each class; empty: they are not counted
  Curves curves{};                      // without a title: there are none
};

nlohmann::ordered_json to_json(const Breakdown& breakdown);
// Nothing where `json` is not what to_json writes: files are anybody's.
std::optional<Breakdown> breakdown_from(const nlohmann::ordered_json& json);

}  // namespace tandem::tasks
