// File names from names that users chose.
#pragma once

#include <string>
#include <string_view>

namespace tandem::files {

// `text` as part of a file name, different for different texts. Replaces '/', '\', '%', control characters
// and a leading '.' by reversible percent-encoding (RFC 3986), %2F. A result longer than kLongestName is
// shortened to its beginning, '~' and 16 digits of its SHA-256.
inline constexpr std::size_t kLongestName = 180;  // bytes; file systems allow 255
std::string as_file_name(std::string_view text);

}  // namespace tandem::files
