// Reader of a model's JSON; errors name their place.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/options.h"

namespace tandem::models {

// Throws OptionError.
[[noreturn]] void fail(const std::string& path, const std::string& message);
// "model.layers[3]"
std::string element(const std::string& path, std::size_t index);
// Formats a value for an error message.
std::string shown(const nlohmann::json& value);

// null means "not given" everywhere.
bool given(const nlohmann::json& object, const char* key);
const std::string& text_at(const nlohmann::json& object, const char* key, const std::string& path);
// A list of layer names.
std::vector<std::string> names_at(const nlohmann::json& object, const char* key, const std::string& path);
// Every key except the reserved ones.
options::Given options_of(const nlohmann::json& object, std::initializer_list<std::string_view> reserved);

}  // namespace tandem::models
