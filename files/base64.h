// Bytes as text of 64 characters (RFC 4648, 4), for what stands within a page.
#pragma once

#include <string>
#include <string_view>

namespace tandem::files {

std::string base64(std::string_view bytes);

}  // namespace tandem::files
