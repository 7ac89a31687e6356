// JPEG and PNG files as u8 [H,W,C] tensors, by libjpeg and libpng.
//
// Colours are as stored (embedded profiles and gamma are ignored, as the field's loaders do). CMYK becomes
// RGB, 16 bits become 8, palettes are resolved, transparency is laid over white.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace tandem::datasets {

// `channels` is 3 (grey images are repeated) or 1 (colours become their luma). Throws UserError naming `name`
// when the bytes are neither JPEG nor PNG, are truncated or damaged, or exceed the limits of data/limits.h.
Tensor decode_image(std::span<const std::byte> bytes, const std::string& name, int channels = 3);
Tensor read_image(const std::filesystem::path& path, int channels = 3);

// By extension, any case: .jpg, .jpeg, .png.
bool is_image_file(const std::filesystem::path& path);

// All of them in a folder and those in it, sorted. Symbolic links to folders are not followed.
std::vector<std::filesystem::path> image_files_below(const std::filesystem::path& folder);

// ITU-R BT.601, rounded.
inline unsigned char luma(unsigned r, unsigned g, unsigned b) {
  return static_cast<unsigned char>((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

// One format each; `bytes` start with its signature.
Tensor decode_jpeg(std::span<const std::byte> bytes, const std::string& name, int channels);
Tensor decode_png(std::span<const std::byte> bytes, const std::string& name, int channels);

// An uninitialised image; throws UserError when a side is 0 or the limits of pixels, or of pixels a byte, are
// exceeded.
Tensor make_image(std::int64_t height, std::int64_t width, int channels, std::size_t file_bytes,
                  const std::string& name);

}  // namespace tandem::datasets
