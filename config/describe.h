// Descriptions of all keys, from the schema, for people and editors.
#pragma once

#include <string>
#include <string_view>

#include "config/schema.h"

namespace tandem::config {

// "required", or the default as JSON.
std::string default_text(const Key& key);

// One line per key: path, default, help, type; only keys with paths that start with `prefix`.
std::string keys_as_text(const Schema& schema, std::string_view prefix = {});
// The same as a list of {"key", "type", "default", "help"}; required keys have no default. "only_for" lists
// the variants that have the key, unless all have it.
Json keys_as_json(const Schema& schema, std::string_view prefix = {});
// The page docs/configuration.md.
std::string keys_as_markdown(const Schema& schema);
// JSON Schema, draft 2020-12, for editors.
Json keys_as_json_schema(const Schema& schema);

}  // namespace tandem::config
