// Limits on input files. Readers check them, and sizes against the file, before they allocate.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/shape.h"

namespace tandem::datasets {

inline constexpr std::int64_t kMaxPixels = 178'956'970;  // of one decoded image (Pillow's error limit)
inline constexpr std::size_t kMaxImageFileBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxNpyHeader = std::size_t{64} << 10;
inline constexpr std::size_t kMaxArrayBytes = std::size_t{1} << 40;
inline constexpr std::size_t kDeflateRatio = 1032;    // the best that deflate achieves
inline constexpr std::size_t kMaxArchiveRatio = 200;  // applies beyond kFreeArchiveBytes
inline constexpr std::size_t kFreeArchiveBytes = std::size_t{64} << 20;
inline constexpr int kMaxProgressiveScans = 200;          // of one JPEG
inline constexpr std::int64_t kMaxPixelsPerByte = 10000;  // of a compressed image file
inline constexpr std::int64_t kMaxClasses = 16'777'216;   // of one data set
inline constexpr std::int64_t kFewClasses = 1000;         // above it, classes without samples are reported
inline constexpr std::int64_t kMaxSamples = 0xffff'ffff;  // sample indices are 32-bit words of a random key
inline constexpr std::int64_t kMaxPieces = 1 << 20;       // words or pieces of one text that are kept

// Product of extents and `element_bytes`. Throws UserError in the name of `where` on a negative extent,
// overflow or more than kMaxArrayBytes.
std::size_t checked_bytes(std::span<const Index> extents, std::size_t element_bytes, std::string_view where);

// Largest size of `packed` bytes of deflated data after unpacking.
std::size_t most_unpacked(std::uintmax_t packed);

}  // namespace tandem::datasets
