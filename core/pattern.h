// Regular expressions from users: ECMAScript without back references.
#pragma once

#include <regex>
#include <string>

namespace tandem {

// Throws UserError, without a place, for an invalid expression, and for one that could take unreasonable time
// or stack: more than 256 characters, or repeat counts that multiply to more than 32.
std::regex compile_pattern(const std::string& text);

}  // namespace tandem
