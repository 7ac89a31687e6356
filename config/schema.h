// Descriptions of options (core/options) with JSON values, the format of configurations.
#pragma once

#include <nlohmann/json.hpp>

#include "core/options/check.h"
#include "core/options/registry.h"
#include "core/options/schema.h"
#include "core/options/value.h"
#include "files/json_value.h"

namespace tandem::config {

using Json = nlohmann::ordered_json;
using namespace options;

inline Json to_json(const Value& value) { return files::to_json<Json>(value); }
inline Value from_json(const Json& json, const Origin& origin) { return files::from_json(json, origin); }

}  // namespace tandem::config

namespace tandem::options {

// Any JSON value; its user checks it.
template <>
struct Binding<nlohmann::ordered_json> {
  static Type type(const Rule& rule) { return detail::ranged(Type::Kind::any, rule); }
  static void store(nlohmann::ordered_json& to, const Value& value) { to = config::to_json(value); }
  static Value load(const nlohmann::ordered_json& from) { return config::from_json(from, {}); }
};

}  // namespace tandem::options
