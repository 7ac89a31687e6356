// JSON as text: parsing with limits for untrusted files, and writing.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tandem::files {

struct JsonLimits {
  int depth = 8;
  std::size_t keys = 1000;   // per object
  std::size_t items = 1024;  // per list; parsed values take many times the size of their text
};

// Throws UserError with `where` and `what` ("the header") for invalid JSON, JSON beyond the limits, duplicate
// keys and NUL bytes. nlohmann's parser accepts all but the first, and copying or printing deeply nested
// values crashes. `Json` is nlohmann::json or nlohmann::ordered_json.
template <class Json>
Json parse_json(const std::string& text, const std::string& where, const std::string& what,
                const JsonLimits& limits = {});

// The message of an nlohmann error without its prefix "[json.exception.type_error.302] ".
std::string json_reason(const std::exception& error);

// A value as text, with U+FFFD for invalid UTF-8, which paths may contain. `indent` −1: one line.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tandem::files
