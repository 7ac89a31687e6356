// Base64 (RFC 4648, 4), for bytes in HTML or JSON.
#pragma once

#include <string>
#include <string_view>

namespace tandem::files {

std::string base64(std::string_view bytes);
// Throws UserError that names `where` for a text that base64() cannot have written.
std::string from_base64(std::string_view text, std::string_view where);

}  // namespace tandem::files
