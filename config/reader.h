// Reads JSON into Values, with limits: 16 MiB, 64 levels, 1,000 keys an object, no duplicate key. Comments
// (/* */ and //) are allowed. Every error is a UserError of one line, "FILE:LINE: what".
#pragma once

#include <string>
#include <string_view>

#include "core/options/value.h"

namespace tandem::config {

using namespace options;

inline constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxKeys = 1000;  // of one object; they are searched one by one

// `origin.source` names the text in messages; origin.line is ignored.
Value parse(std::string_view text, const Origin& origin);

// The whole file; refuses one that is larger than kMaxBytes, or no regular file, before reading it.
Value read_file(const std::string& path, const Origin& origin);

}  // namespace tandem::config
