// The description of all keys in the forms people and editors read. All of it comes from the schema.
#pragma once

#include <string>

#include "config/schema.h"

namespace tandem::config {

// "integer ≥ 1" and so on; "required" or the default as the file would say it.
std::string default_text(const Key& key);

// One line a key: path, type, default, help.
std::string keys_as_text(const Schema& schema);
// docs/configuration.md.
std::string keys_as_markdown(const Schema& schema);
// JSON Schema, draft 2020-12, for editors.
Json keys_as_json_schema(const Schema& schema);

}  // namespace tandem::config
