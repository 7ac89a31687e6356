// Split of a corpus by the names of its items, independent of its other items.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem::datasets {

enum class TextSplit : std::uint8_t { train, validation, test };

// The split follows from CRC-32 of the name modulo 20: 18 is validation, 19 is test, the rest is training.
TextSplit split_of(std::string_view name);

}  // namespace tandem::datasets
