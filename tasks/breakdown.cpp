#include "tasks/breakdown.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "files/json_fields.h"

namespace tandem::tasks {

namespace {

using Json = nlohmann::ordered_json;

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(std::isfinite(value) ? Json(value) : Json());
  return list;
}

std::optional<std::vector<double>> numbers_from(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<double> values;
  for (const Json& value : json)
    values.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
  return values;
}

bool read_names(const Json& json, Breakdown& to) {
  const auto names = json.find("classes");
  if (names == json.end() || !names->is_array() || names->empty()) return false;
  for (const Json& name : *names) {
    if (!name.is_string()) return false;
    to.names.push_back(name.get<std::string>());
  }
  return true;
}

bool read_figures(const Json& json, Breakdown& to) {
  const auto figures = json.find("figures");
  if (figures == json.end() || !figures->is_object()) return false;
  for (const auto& [name, list] : figures->items()) {
    auto values = numbers_from(list);
    if (!values || values->size() != to.names.size()) return false;
    to.figures.emplace_back(name, std::move(*values));
  }
  return true;
}

bool read_samples(const Json& json, Breakdown& to) {
  const auto samples = json.find("samples");
  if (samples == json.end()) return true;
  if (!samples->is_array() || samples->size() != to.names.size()) return false;
  for (const Json& count : *samples) {
    if (!count.is_number_integer()) return false;
    to.samples.push_back(count.get<std::int64_t>());
  }
  return true;
}

bool read_curves(const Json& json, Breakdown& to) {
  const auto curves = json.find("curves");
  if (curves == json.end()) return true;
  const auto values = curves->find("values");
  if (!curves->is_object() || values == curves->end() || !values->is_array() ||
      values->size() != to.names.size())
    return false;
  to.curves = {.title = files::text_in(*curves, "title"),
               .x = files::text_in(*curves, "x"),
               .y = files::text_in(*curves, "y"),
               .values = {}};
  for (const Json& list : *values) {
    auto curve = numbers_from(list);
    if (!curve) return false;
    to.curves.values.push_back(std::move(*curve));
  }
  return true;
}

}  // namespace

Json to_json(const Breakdown& breakdown) {
  Json figures = Json::object();
  for (const auto& [name, values] : breakdown.figures) figures[name] = numbers(values);
  Json json{{"classes", breakdown.names}, {"figures", figures}};
  if (!breakdown.samples.empty()) json["samples"] = breakdown.samples;
  if (breakdown.curves.title.empty()) return json;
  Json values = Json::array();
  for (const auto& curve : breakdown.curves.values) values.push_back(numbers(curve));
  json["curves"] = {{"title", breakdown.curves.title},
                    {"x", breakdown.curves.x},
                    {"y", breakdown.curves.y},
                    {"values", values}};
  return json;
}

std::optional<Breakdown> breakdown_from(const Json& json) {
  Breakdown breakdown;
  if (!json.is_object() || !read_names(json, breakdown) || !read_figures(json, breakdown) ||
      !read_samples(json, breakdown) || !read_curves(json, breakdown))
    return std::nullopt;
  return breakdown;
}

}  // namespace tandem::tasks
