// Bytes as text of 64 characters (RFC 4648, 4), for what stands within a page or in JSON.
#pragma once

#include <string>
#include <string_view>

namespace tandem::files {

std::string base64(std::string_view bytes);
// Throws UserError in the name of `where` for a text that base64 does not write.
std::string from_base64(std::string_view text, std::string_view where);

}  // namespace tandem::files
