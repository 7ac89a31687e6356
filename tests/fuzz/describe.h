// Result of a reader, as one line of JSON.
#pragma once

#include <string>

namespace tandem::fuzz {

// `format` is safetensors or npy. {"accepted": false, "why": …}, or {"accepted": true, "tensors": {NAME:
// {"dtype", "shape", "crc32"}}, "metadata"}; without crc32 where Tandem has no such type. An array of npy has
// the name "".
std::string describe(const std::string& format, const std::string& file);

}  // namespace tandem::fuzz
