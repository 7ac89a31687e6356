#include "models/model_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "files/json_value.h"

namespace tandem::models {

using nlohmann::json;

void fail(const std::string& path, const std::string& message) { throw OptionError(path, message); }

std::string element(const std::string& path, std::size_t index) { return fmt::format("{}[{}]", path, index); }

std::string shown(const json& value) {
  std::string text =
      value.is_structured() ? value.type_name() : value.dump(-1, ' ', false, json::error_handler_t::replace);
  return shortened(text, 57);
}

bool given(const json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

options::Given options_of(const json& object, std::initializer_list<std::string_view> reserved) {
  options::Given options;
  for (const auto& [key, value] : object.items())
    if (std::ranges::count(reserved, key) == 0) options.push_back({key, files::from_json(value)});
  return options;
}

const std::string& text_at(const json& object, const char* key, const std::string& path) {
  const json& value = object.at(key);
  if (!value.is_string()) fail(path + "." + key, fmt::format("expected a text, got {}", shown(value)));
  return value.get_ref<const std::string&>();
}

std::vector<std::string> names_at(const json& object, const char* key, const std::string& path) {
  const json& list = object.at(key);
  const std::string at = path + "." + key;
  if (!list.is_array() || list.empty())
    fail(at, fmt::format("expected a list of names of layers, got {}", shown(list)));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string())
      fail(element(at, i), fmt::format("expected the name of a layer, got {}", shown(list[i])));
    names.push_back(list[i].get<std::string>());
  }
  return names;
}

}  // namespace tandem::models
