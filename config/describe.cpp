#include "config/describe.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/text_width.h"

namespace tandem::config {

namespace {

constexpr std::size_t kAllOwners = 1000;

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

// Variants with the key: "" or " (sgd, lars only)", with at most `most` names. The empty variant has no name.
std::string owners_text(const std::vector<std::string>& only_for, std::size_t most) {
  std::vector<std::string> owners;
  for (const std::string& owner : only_for) {
    if (!owner.empty()) owners.push_back(owner);
  }
  if (owners.empty()) return "";
  const std::size_t shown = owners.size() > most ? most - 1 : owners.size();
  const std::string names =
      fmt::format("{}", fmt::join(owners.begin(), owners.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown == owners.size() ? fmt::format(" ({} only)", names)
                                : fmt::format(" ({} and {} more only)", names, owners.size() - shown);
}

Json object_schema(const Schema& schema);

Json plain_schema(const Type& type) {
  Json json = Json::object();
  switch (type.kind) {
    case Type::Kind::boolean:
      json["type"] = "boolean";
      break;
    case Type::Kind::integer:
    case Type::Kind::number:
      json["type"] = type.kind == Type::Kind::integer ? "integer" : "number";
      if (type.min) json[type.open_min ? "exclusiveMinimum" : "minimum"] = *type.min;
      if (type.max) json[type.open_max ? "exclusiveMaximum" : "maximum"] = *type.max;
      break;
    case Type::Kind::numbers: {
      Type one = type;
      one.kind = Type::Kind::number;
      if (type.whole) one.kind = Type::Kind::integer;
      const Json number = plain_schema(one);
      const Json list{{"type", "array"}, {"items", number}, {"maxItems", type.max_count}};
      json["anyOf"] = Json::array({number, list});
      break;
    }
    case Type::Kind::string:
      json["type"] = "string";
      if (!type.choices.empty()) json["enum"] = type.choices;
      break;
    case Type::Kind::list:
      json["type"] = "array";
      json["items"] = plain_schema(*type.item);
      if (!type.single) break;
      json["minItems"] = 1;
      json = Json{{"anyOf", Json::array({plain_schema(*type.item), json})}};
      break;
    case Type::Kind::map:
      json["type"] = "object";
      json["additionalProperties"] = plain_schema(*type.item);
      break;
    case Type::Kind::object:
      return object_schema(*type.schema);
    case Type::Kind::any:
      break;
  }
  return json;
}

Json type_schema(const Type& type) {
  Json json = plain_schema(type);
  Json alternatives = Json::array({json});
  if (type.nullable) alternatives.push_back({{"type", "null"}});
  if (!type.keyword.empty()) alternatives.push_back({{"const", type.keyword}});
  return alternatives.size() == 1 ? json : Json{{"anyOf", alternatives}};
}

Json object_schema(const Schema& schema) {
  Json properties = Json::object(), required = Json::array();
  for (const Key& key : schema.keys) {
    Json json = type_schema(key.type);
    json["description"] = key.help + owners_text(key.only_for, kAllOwners);
    if (key.required) {
      required.push_back(key.name);
    } else if (key.type.kind != Type::Kind::object) {
      json["default"] = key.default_value.is(Value::Kind::null) && !key.type.keyword.empty()
                            ? Json(key.type.keyword)
                            : to_json(key.default_value);
    }
    if (const auto same = properties.find(key.name); same != properties.end()) {
      if (!same->contains("anyOf") || same->size() > 1) *same = Json{{"anyOf", Json::array({*same})}};
      (*same)["anyOf"].push_back(std::move(json));
    } else {
      properties[key.name] = std::move(json);
    }
  }
  Json object{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) object["required"] = required;
  Json alternatives = Json::array({object});
  if (!schema.short_key.empty()) alternatives.push_back(plain_schema(schema.find(schema.short_key)->type));
  if (!schema.presets.empty()) {
    Json names = Json::array();
    for (const auto& [name, preset] : schema.presets) names.push_back(name);
    alternatives.push_back({{"enum", names}});
  }
  return alternatives.size() == 1 ? object : Json{{"anyOf", alternatives}};
}

}  // namespace

std::string default_text(const Key& key) {
  if (key.required) return "required";
  const Value& value = key.default_value;
  if (key.type.kind == Type::Kind::object && !value.is(Value::Kind::null) && !value.is(Value::Kind::string))
    return "";
  if (value.is(Value::Kind::null) && !key.type.keyword.empty())
    return fmt::format("\"{}\"", key.type.keyword);
  return to_string(value);
}

std::string keys_as_text(const Schema& schema, std::string_view prefix) {
  constexpr std::size_t kPathWidth = 36, kDefaultWidth = 16, kOwners = 4;
  std::string text;
  for (const auto& [path, key, only_for] : list_keys(schema)) {
    if (!path.starts_with(prefix)) continue;
    text += fmt::format("{}{}{}: {}{}\n", padded(path, kPathWidth),
                        padded(default_text(*key) + " ", kDefaultWidth), key->help, key->type.text(),
                        owners_text(only_for, kOwners));
  }
  return text;
}

Json keys_as_json(const Schema& schema, std::string_view prefix) {
  Json list = Json::array();
  for (const auto& [path, key, only_for] : list_keys(schema)) {
    if (!path.starts_with(prefix)) continue;
    Json one{{"key", path}, {"type", key->type.text()}};
    if (!key->required) one["default"] = default_text(*key);
    one["help"] = key->help;
    if (!owners_text(only_for, kAllOwners).empty()) one["only_for"] = only_for;
    list.push_back(std::move(one));
  }
  return list;
}

std::string keys_as_markdown(const Schema& schema) {
  std::string text =
      "# Configuration\n\n"
      "Every key of a configuration file. This page is generated by `tandem ls keys --markdown`; do not edit "
      "it.\n\n"
      "A file is JSON with comments. Keys override those of its `\"base\"`, a file or a shipped "
      "configuration. `[]` stands\n"
      "for the items of a list. On the command line `path.to.key=value` sets a key, `+path.to.list=value` "
      "appends an item\n"
      "and `~path.to.key` removes a key. `tandem show CONFIG` prints the result with the origin of every "
      "value.\n";
  const auto add_table = [&](const std::string& title, const std::string& section) {
    text += fmt::format("\n## {}\n\n| key | value | default | |\n| --- | --- | --- | --- |\n", title);
    for (const auto& [path, key, only_for] : list_keys(schema)) {
      const std::size_t dot = path.find('.');
      if (section.empty() ? dot != std::string::npos : path.substr(0, dot) != section) continue;
      const std::string value = default_text(*key);
      text += fmt::format("| `{}` | {} | {} | {} |\n", path,
                          escaped(key->type.text() + owners_text(only_for, kAllOwners)),
                          value.empty() || value == "required" ? value : fmt::format("`{}`", escaped(value)),
                          escaped(key->help));
    }
  };
  add_table("The run", "");
  std::vector<std::string> sections;
  for (const Key& key : schema.keys) {
    if (key.type.kind != Type::Kind::object || std::ranges::count(sections, key.name) > 0) continue;
    sections.push_back(key.name);
    add_table(fmt::format("`{}`", key.name), key.name);
  }
  return text;
}

Json keys_as_json_schema(const Schema& schema) {
  Json json{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "Tandem configuration"}};
  Json object = object_schema(schema);
  object["properties"]["base"] = {
      {"description", "path or shipped name of the base configuration, or a list of them"},
      {"anyOf", Json::array({{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}}})}};
  object["properties"]["$schema"] = {{"type", "string"}, {"description", "for editors; ignored"}};
  json.update(object);
  return json;
}

}  // namespace tandem::config
