// Names of bytes in the files of byte-level BPE: a printable character for each byte.
//
// The bytes 33–126, 161–172 and 174–255 are the characters of these numbers; the other 68, in order, are
// U+0100 … U+0143, so that a space is "Ġ" and a line end "Ċ".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::datasets {

// The bytes in the order of their names, which is that of their ids in a trained vocabulary.
const std::array<unsigned char, 256>& bytes_by_name();

// "Ġthe" for " the".
std::string name_of_bytes(std::string_view bytes);
// Absent if a character of the name stands for no byte.
std::optional<std::string> bytes_of_name(std::string_view name);

}  // namespace tandem::datasets
