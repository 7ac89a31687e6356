// Records of TensorBoard's event files: u64 length, masked CRC-32C of these eight bytes, payload, masked
// CRC-32C of the payload; all little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::tensorboard {

// CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::string_view bytes);
// The CRC as records store it: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked(std::uint32_t crc);

// One payload as a record.
std::string record(std::string_view payload);

// The payloads of a whole file. Ignores an incomplete last record, which a killed run leaves. Throws
// UserError with the offset of a record whose length or payload does not match its checksum.
std::vector<std::string> payloads(std::string_view file);

}  // namespace tandem::tensorboard
