// Conversion between options and JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "core/options/value.h"

namespace tandem::files {

// nlohmann::json or nlohmann::ordered_json.
template <class Json>
Json to_json(const options::Value& value);
template <class Json>
options::Value from_json(const Json& json, const options::Origin& origin = {});

}  // namespace tandem::files
