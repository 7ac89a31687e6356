#include "tasks/classification/answer.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/units.h"
#include "files/json_text.h"
#include "files/output.h"

namespace tandem::tasks {

void print_answer(const std::string& input, std::span<const float> values,
                  const std::vector<std::string>& class_names, const PredictRequest& request) {
  print_answer(input, Json::object(), values, class_names, request);
}

void print_answer(const std::string& input, const Json& more, std::span<const float> values,
                  const std::vector<std::string>& class_names, const PredictRequest& request) {
  const auto name = [&](std::size_t c) {
    return c < class_names.size() ? class_names[c] : std::to_string(c);
  };
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return values[a] > values[b] || (values[a] == values[a] && values[b] != values[b]);
  });
  order.resize(std::min(values.size(), static_cast<std::size_t>(request.top.value_or(1))));
  if (request.json) {
    Json line{{"input", input}};
    line.update(more);
    line["predictions"] = Json::array();
    for (const std::size_t c : order)
      line["predictions"].push_back(
          {{"class", c}, {"name", name(c)}, {request.logits ? "logit" : "probability", values[c]}});
    output::print("{}\n", files::json_text(line));
    return;
  }
  std::string text = input;
  for (const std::size_t c : order)
    text += request.logits ? fmt::format("  {} {}", name(c), decimal_text(values[c], 4))
                           : fmt::format("  {} {} %", name(c), decimal_text(100.0 * values[c], 1));
  output::print("{}\n", text);
}

}  // namespace tandem::tasks
