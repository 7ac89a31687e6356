// JSON as text: of files that others wrote, with limits, and of what is written.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tandem::files {

struct JsonLimits {
  int depth = 8;
  std::size_t keys = 1000;   // of one object
  std::size_t items = 1024;  // of one list; parsed, a long one takes many times its text
};

// Throws UserError naming `where` and `what` ("the header") for what is no JSON, beyond the limits, has a key
// twice in one object or a NUL byte: nlohmann's parser takes all but the first silently, and copying or
// printing what is nested very deep crashes. `Json` is nlohmann::json or nlohmann::ordered_json.
template <class Json>
Json parse_json(const std::string& text, const std::string& where, const std::string& what,
                const JsonLimits& limits = {});

// What nlohmann's library says of an error, without its own name for it ("[json.exception.type_error.302] ").
std::string json_reason(const std::exception& error);

// The text of a value, with U+FFFD for what is no UTF-8: a path may hold anything. `indent` of −1: one line.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tandem::files
