// The part of a corpus that something belongs to, by its name: the same whatever else the corpus has.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem::datasets {

enum class TextSplit : std::uint8_t { train, validation, test };

// By CRC-32 of the name, modulo 20: 18 is for validation, 19 for test, the rest for training.
TextSplit split_of(std::string_view name);

}  // namespace tandem::datasets
