#include "config/value.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "files/json_text.h"

namespace tandem::config {

std::string Origin::place() const {
  switch (layer) {
    case Layer::built_in:
      return "default";
    case Layer::command_line:
      return "command line";
    default:
      return line > 0 ? fmt::format("{}:{}", *source, line) : *source;
  }
}

bool Origin::above(const Origin& other) const {
  return layer != other.layer ? layer > other.layer : depth > other.depth;
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

Value& Value::set(std::string key, Value value) {
  if (Value* existing = find(key)) return *existing = std::move(value);
  members.push_back({std::move(key), std::move(value)});
  return members.back().value;
}

bool Value::erase(std::string_view key) {
  return std::erase_if(members, [&](const Member& member) { return member.name == key; }) > 0;
}

std::string_view name_of(Value::Kind kind) {
  constexpr std::string_view names[] = {"null", "boolean", "integer", "number", "string", "list", "object"};
  return names[static_cast<int>(kind)];
}

std::string excerpt(const Value& value, std::size_t limit) {
  return shortened(files::json_text(to_json(value)), limit);
}

nlohmann::ordered_json to_json(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return nullptr;
    case Value::Kind::boolean:
      return value.boolean;
    case Value::Kind::integer:
      return value.integer;
    case Value::Kind::number:
      return value.number;
    case Value::Kind::string:
      return value.text;
    case Value::Kind::list: {
      auto json = nlohmann::ordered_json::array();
      for (const Value& item : value.items) json.push_back(to_json(item));
      return json;
    }
    case Value::Kind::object:
      break;
  }
  auto json = nlohmann::ordered_json::object();
  for (const auto& [key, member] : value.members) json[key] = to_json(member);
  return json;
}

Value from_json(const nlohmann::ordered_json& json, const Origin& origin) {
  Value value;
  value.origin = origin;
  if (json.is_boolean()) {
    value.kind = Value::Kind::boolean;
    value.boolean = json.get<bool>();
  } else if (json.is_number_integer()) {
    value.kind = Value::Kind::integer;
    value.integer = json.get<std::int64_t>();
    value.number = json.get<double>();
  } else if (json.is_number()) {
    value.kind = Value::Kind::number;
    value.number = json.get<double>();
  } else if (json.is_string()) {
    value.kind = Value::Kind::string;
    value.text = json.get<std::string>();
  } else if (json.is_array()) {
    value.kind = Value::Kind::list;
    for (const auto& item : json) value.items.push_back(from_json(item, origin));
  } else if (json.is_object()) {
    value.kind = Value::Kind::object;
    for (const auto& [key, member] : json.items()) value.members.push_back({key, from_json(member, origin)});
  }
  return value;
}

void merge(Value& under, Value over) {
  if (!under.is(Value::Kind::object) || !over.is(Value::Kind::object)) {
    under = std::move(over);
    return;
  }
  under.origin = over.origin;
  for (auto& [key, value] : over.members) {
    if (Value* existing = under.find(key)) {
      merge(*existing, std::move(value));
    } else {
      under.members.push_back({key, std::move(value)});
    }
  }
}

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace tandem::config
