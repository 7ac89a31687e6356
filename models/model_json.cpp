#include "models/model_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/printable.h"

namespace tandem::models {

using nlohmann::json;

void fail(const std::string& path, const std::string& message) { throw OptionError(path, message); }

std::string element(const std::string& path, std::size_t index) { return fmt::format("{}[{}]", path, index); }

std::string shown(const json& value) {
  std::string text =
      value.is_structured() ? value.type_name() : value.dump(-1, ' ', false, json::error_handler_t::replace);
  return shortened(text, 57);
}

OptionValue option_value(const json& value, const std::string& path) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    fail(path, fmt::format("{} is too large", shown(value)));
  if (value.is_number_integer()) return value.get<Index>();
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    const bool whole =
        std::floor(number) == number && std::abs(number) < 0x1p53;  // 10.0 and 1e6 are integers
    return whole ? OptionValue(static_cast<Index>(number)) : OptionValue(number);
  }
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) fail(path, fmt::format("expected a plain value, got {}", shown(value)));
  std::vector<Index> list;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const OptionValue item = option_value(value[i], element(path, i));
    const auto* integer = std::get_if<Index>(&item);
    if (!integer) fail(element(path, i), fmt::format("expected an integer, got {}", shown(value[i])));
    list.push_back(*integer);
  }
  return list;
}

bool given(const json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

OptionMap options_of(const json& object, std::initializer_list<std::string_view> reserved,
                     std::span<const OptionInfo> infos, const std::string& path) {
  OptionMap options;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::count(reserved, key) > 0) continue;
    if (value.is_null() && std::ranges::count(infos, key, &OptionInfo::name) > 0) continue;
    options[key] = value.is_null() ? OptionValue(std::string("null")) : option_value(value, path + "." + key);
  }
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
