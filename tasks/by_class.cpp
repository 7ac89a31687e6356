#include "tasks/by_class.h"

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

bool read_classes(const Json& json, ByClass& to) {
  const auto names = json.find("classes");
  if (names == json.end() || !names->is_array() || names->empty()) return false;
  for (const Json& name : *names) {
    if (!name.is_string()) return false;
    to.classes.push_back(name.get<std::string>());
  }
  return true;
}

bool read_figures(const Json& json, ByClass& to) {
  const auto figures = json.find("figures");
  if (figures == json.end() || !figures->is_object()) return false;
  for (const auto& [name, list] : figures->items()) {
    auto values = numbers_from(list);
    if (!values || values->size() != to.classes.size()) return false;
    to.figures.emplace_back(name, std::move(*values));
  }
  return true;
}

bool read_curves(const Json& json, ByClass& to) {
  const auto curves = json.find("curves");
  if (curves == json.end()) return true;
  const auto values = curves->find("values");
  if (!curves->is_object() || values == curves->end() || !values->is_array() ||
      values->size() != to.classes.size())
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

Json to_json(const ByClass& by_class) {
  Json figures = Json::object();
  for (const auto& [name, values] : by_class.figures) figures[name] = numbers(values);
  Json json{{"classes", by_class.classes}, {"figures", figures}};
  if (by_class.curves.title.empty()) return json;
  Json values = Json::array();
  for (const auto& curve : by_class.curves.values) values.push_back(numbers(curve));
  json["curves"] = {{"title", by_class.curves.title},
                    {"x", by_class.curves.x},
                    {"y", by_class.curves.y},
                    {"values", values}};
  return json;
}

std::optional<ByClass> by_class_from(const Json& json) {
  ByClass by_class;
  if (!json.is_object() || !read_classes(json, by_class) || !read_figures(json, by_class) ||
      !read_curves(json, by_class))
    return std::nullopt;
  return by_class;
}

}  // namespace tandem::tasks
