#include "config/schema.h"

namespace tandem::config {

Json to_json(const Value& value) {
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
      Json json = Json::array();
      for (const Value& item : value.items) json.push_back(to_json(item));
      return json;
    }
    case Value::Kind::object:
      break;
  }
  Json json = Json::object();
  for (const auto& [key, member] : value.members) json[key] = to_json(member);
  return json;
}

Value from_json(const Json& json, const Origin& origin) {
  Value value;
  if (json.is_boolean()) {
    value = json.get<bool>();
  } else if (json.is_number_integer()) {
    value = json.get<std::int64_t>();
  } else if (json.is_number()) {
    value = json.get<double>();
  } else if (json.is_string()) {
    value = json.get<std::string>();
  } else if (json.is_array()) {
    value.kind = Value::Kind::list;
    for (const auto& item : json) value.items.push_back(from_json(item, origin));
  } else if (json.is_object()) {
    value.kind = Value::Kind::object;
    for (const auto& [key, member] : json.items()) value.members.push_back({key, from_json(member, origin)});
  }
  value.origin = origin;
  return value;
}

}  // namespace tandem::config
