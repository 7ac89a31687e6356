#include "files/json_value.h"

namespace tandem::files {

using options::Value;

template <class Json>
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
      for (const Value& item : value.items) json.push_back(to_json<Json>(item));
      return json;
    }
    case Value::Kind::object:
      break;
  }
  Json json = Json::object();
  for (const auto& [key, member] : value.members) json[key] = to_json<Json>(member);
  return json;
}

template <class Json>
Value from_json(const Json& json, const options::Origin& origin) {
  Value value;
  if (json.is_boolean()) {
    value = json.template get<bool>();
  } else if (json.is_number_integer()) {
    value = json.template get<std::int64_t>();
  } else if (json.is_number()) {
    value = json.template get<double>();
  } else if (json.is_string()) {
    value = json.template get<std::string>();
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

template nlohmann::json to_json(const Value&);
template nlohmann::ordered_json to_json(const Value&);
template Value from_json(const nlohmann::json&, const options::Origin&);
template Value from_json(const nlohmann::ordered_json&, const options::Origin&);

}  // namespace tandem::files
