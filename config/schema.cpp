#include "config/schema.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::config {

namespace {

std::string number_text(double number) {
  const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
  return whole ? fmt::format("{:.0f}", number) : fmt::format("{:g}", number);
}

std::string range_text(const Type& type) {
  const bool machine_limits = type.kind == Type::Kind::integer && type.min && *type.min < -2e9;
  if (machine_limits) return "";
  if (type.min && type.max && type.kind == Type::Kind::integer && *type.max >= 2147483647.0)
    return fmt::format(" ≥ {}", number_text(*type.min));
  if (type.min && type.max)
    return fmt::format(" in {}{}, {}{}", type.open_min ? '(' : '[', number_text(*type.min),
                       number_text(*type.max), type.open_max ? ')' : ']');
  if (type.min) return fmt::format(" {} {}", type.open_min ? ">" : "≥", number_text(*type.min));
  if (type.max) return fmt::format(" {} {}", type.open_max ? "<" : "≤", number_text(*type.max));
  return "";
}

std::string object_text(const Schema& schema) {
  std::vector<std::string> words;
  for (const auto& [name, object] : schema.presets) words.push_back(name);
  if (words.empty() && !schema.short_key.empty()) {
    Type type = schema.find(schema.short_key)->type;
    type.nullable = false;
    return fmt::format("object, or its {} alone ({})", schema.short_key, type.text());
  }
  return words.empty() ? "object" : fmt::format("one of {}, or object", fmt::join(words, ", "));
}

// The value of the sibling "name", written or by default; "" when the schema has none.
std::string variant(const Schema& schema, const Value& object) {
  if (const Value* name = object.find(schema.discriminator); name && name->is(Value::Kind::string))
    return name->text;
  const Key* key = schema.find(schema.discriminator);
  return key && key->default_value.is_string() ? key->default_value.get<std::string>() : "";
}

}  // namespace

Type detail::ranged(Type::Kind kind, const Rule& rule) {
  Type type;
  type.kind = kind;
  type.min = rule.min;
  type.max = rule.max;
  type.open_min = rule.open_min;
  type.open_max = rule.open_max;
  type.choices = rule.choices;
  return type;
}

std::string Type::text() const {
  std::string text;
  switch (kind) {
    case Kind::boolean:
      text = "true or false";
      break;
    case Kind::integer:
      text = "integer" + range_text(*this);
      break;
    case Kind::number:
      text = "number" + range_text(*this);
      break;
    case Kind::numbers:
      text = fmt::format("{}{}, or a list of up to {}", whole ? "integer" : "number", range_text(*this),
                         max_count);
      break;
    case Kind::string:
      text = choices.empty() ? "string" : fmt::format("one of {}", fmt::join(choices, ", "));
      break;
    case Kind::list:
      text = fmt::format("list of {}", item->text());
      break;
    case Kind::object:
      text = object_text(*schema);
      break;
    case Kind::map:
      text = fmt::format("object of {}", item->text());
      break;
    case Kind::any:
      text = "any";
      break;
  }
  if (!keyword.empty()) text += fmt::format(", or \"{}\"", keyword);
  if (nullable) text += ", or null";
  return text;
}

bool Key::belongs_to(std::string_view name_of_object) const {
  return only_for.empty() || std::find(only_for.begin(), only_for.end(), name_of_object) != only_for.end();
}

const Key* Schema::find(std::string_view name) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

const Key* Schema::find(std::string_view name, std::string_view variant) const {
  const auto found = std::find_if(
      keys.begin(), keys.end(), [&](const Key& key) { return key.name == name && key.belongs_to(variant); });
  return found == keys.end() ? find(name) : &*found;
}

void bind(const Schema& schema, void* object, const Value& value) {
  if (value.is(Value::Kind::string)) {
    if (const auto preset = schema.presets.find(value.text); preset != schema.presets.end()) {
      bind(schema, object, from_json(preset->second, value.origin));
    } else {
      schema.find(schema.short_key)->store(object, value);
    }
    return;
  }
  const std::string name = variant(schema, value);
  for (const Key& key : schema.keys) {
    const Value* member = value.find(key.name);
    if (!member || !key.belongs_to(name)) continue;
    const bool keyword =
        !key.type.keyword.empty() && member->is(Value::Kind::string) && member->text == key.type.keyword;
    key.store(object, keyword ? Value{} : *member);
  }
}

namespace {

Json unbind_members(const Schema& schema, const void* object) {
  std::string name;
  if (const Key* key = schema.find(schema.discriminator)) {
    const Json value = key->load(object);
    if (value.is_string()) name = value.get<std::string>();
  }
  Json json = Json::object();
  for (const Key& key : schema.keys) {
    if (!key.belongs_to(name)) continue;
    Json value = key.load(object);
    if (value.is_null() && !key.type.keyword.empty()) value = key.type.keyword;
    json[key.name] = std::move(value);
  }
  return json;
}

}  // namespace

Json unbind(const Schema& schema, const void* object) {
  Json json = unbind_members(schema, object);
  for (const auto& [name, preset] : schema.presets) {
    const auto sample = schema.make();
    bind(schema, sample.get(), from_json(preset, {}));
    if (unbind_members(schema, sample.get()) == json) return name;
  }
  return json;
}

}  // namespace tandem::config
