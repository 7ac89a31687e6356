// Reader of JSON into Values, with limits: 16 MiB, 64 levels, 1,000 keys per object, no duplicate keys.
// Comments (/* */ and //) are allowed. Errors are UserErrors of one line, "FILE:LINE: what".
#pragma once

#include <string>
#include <string_view>

#include "core/options/value.h"

namespace tandem::config {

using namespace options;

inline constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxKeys = 1000;  // per object; the search is linear

// `origin.source` names the text in errors; origin.line is ignored.
Value parse(std::string_view text, const Origin& origin);

// Reads a whole file. Refuses files larger than kMaxBytes and special files before reading.
Value read_file(const std::string& path, const Origin& origin);

}  // namespace tandem::config
