// Fields of untrusted JSON: `absent` if a field is missing or has another type.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace tandem::files {

template <class Json>
double number_in(const Json& json, const char* key,
                 double absent = std::numeric_limits<double>::quiet_NaN()) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->template get<double>() : absent;
}

template <class Json>
std::int64_t integer_in(const Json& json, const char* key, std::int64_t absent = 0) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->template get<std::int64_t>() : absent;
}

template <class Json>
bool boolean_in(const Json& json, const char* key, bool absent = false) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? found->template get<bool>() : absent;
}

template <class Json>
std::string text_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->template get<std::string>() : std::string();
}

}  // namespace tandem::files
