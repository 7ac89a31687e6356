// The description of all keys in the forms people and editors read. All of it comes from the schema.
#pragma once

#include <string>
#include <string_view>

#include "config/schema.h"

namespace tandem::config {

// "integer ≥ 1" and so on; "required" or the default as the file would say it.
std::string default_text(const Key& key);

// One line a key: path, type, default, help; of keys whose paths begin with `prefix`.
std::string keys_as_text(const Schema& schema, std::string_view prefix = {});
// The same as a list of {"key", "type", "default", "help"}, without a default where the key is required, and
// with "only_for", the variants that have it, where not all do.
Json keys_as_json(const Schema& schema, std::string_view prefix = {});
// docs/configuration.md.
std::string keys_as_markdown(const Schema& schema);
// JSON Schema, draft 2020-12, for editors.
Json keys_as_json_schema(const Schema& schema);

}  // namespace tandem::config
