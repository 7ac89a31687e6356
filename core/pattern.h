// Regular expressions that users write: ECMAScript's, without back references.
#pragma once

#include <regex>
#include <string>

namespace tandem {

// Throws UserError, without a place, for what is no regular expression and for one whose compiling or
// searching could take unreasonable time or stack: more than 256 characters, or counts in braces that
// multiply to more than 32.
std::regex compile_pattern(const std::string& text);

}  // namespace tandem
