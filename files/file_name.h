// Names that users chose, as names of files.
#pragma once

#include <string>
#include <string_view>

namespace tandem::files {

// `text` as part of a file name, different for different texts: as it is, but '/', '\', '%', control
// characters and a leading '.' as %2F and so on (percent-encoding, RFC 3986), which can be read back. Of a
// text that is longer than kLongestName then, its beginning, '~' and 16 digits of its SHA-256.
inline constexpr std::size_t kLongestName = 180;  // bytes; file systems take 255
std::string as_file_name(std::string_view text);

}  // namespace tandem::files
