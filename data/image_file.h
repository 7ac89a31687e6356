// JPEG and PNG files as u8 [H,W,C] tensors, by libjpeg and libpng.
//
// Colours are as stored (embedded profiles and gamma are ignored, as the field's loaders do). CMYK becomes
// RGB, 16 bits become 8, palettes are resolved, transparency is laid over white. Pixels lie as they are seen:
// turned as the EXIF orientation says (data/orientation.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace tandem::datasets {

// Memory that decoding one image may take where nobody says otherwise: 89 million pixels in colour.
inline constexpr std::size_t kImageMemory = std::size_t{256} << 20;

// How image files are read.
struct ImageReading {
  std::size_t memory = kImageMemory;  // that decoding one may take
  bool upright = true;                // turned as their EXIF orientation says; else as they are stored
};
inline ImageReading as_stored(ImageReading reading) {
  reading.upright = false;
  return reading;
}

// `channels` is 3 (grey images are repeated), 1 (colours become their luma) or, of PNG only, 4 (colours and
// their opacity, not laid over anything). Throws UserError naming `name` when the bytes are neither JPEG nor
// PNG, are truncated or damaged, exceed the limits of data/limits.h, or would take more memory
// to decode than it may, the file's own included.
Tensor decode_image(std::span<const std::byte> bytes, const std::string& name, int channels = 3,
                    const ImageReading& reading = {});
Tensor read_image(const std::filesystem::path& path, int channels = 3, const ImageReading& reading = {});

// A PNG of palette indices or grey values of at most 8 bits, as they are stored: u8 [H,W]. Errors as above,
// and UserError for any other kind of PNG.
Tensor read_indices(const std::filesystem::path& path, const ImageReading& reading = {});

// By extension, any case: .jpg, .jpeg, .png.
bool is_image_file(const std::filesystem::path& path);

struct PassedOver;

// All of them in a folder and those in it, each sorted by name. Symbolic links to folders are followed, and
// every folder is looked through once. What is hidden or foreign is left out (data/passed_over.h), and
// counted with the rest that is no image. Where `check_files` says so, throws UserError when something is
// called as an image is and no regular file; otherwise that is an error when it is read.
std::vector<std::filesystem::path> image_files_below(const std::filesystem::path& folder,
                                                     bool check_files = true,
                                                     PassedOver* passed_over = nullptr);

// The first of the folders `names` that is in `root`; empty where none is.
std::filesystem::path first_folder(const std::filesystem::path& root,
                                   std::initializer_list<const char*> names);

// ITU-R BT.601, rounded.
inline unsigned char luma(unsigned r, unsigned g, unsigned b) {
  return static_cast<unsigned char>((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

// A file to decode.
struct ImageSource {
  std::span<const std::byte> bytes;
  const std::string& name;
  std::size_t memory;
  bool upright = true;
};

// One format each; the bytes start with its signature.
Tensor decode_jpeg(const ImageSource& source, int channels);
Tensor decode_png(const ImageSource& source, int channels);
Tensor decode_png_indices(const ImageSource& source);

// An uninitialised image; `besides` is what the decoder takes beside it and the file. Throws UserError when a
// side is 0, or when the limits of pixels, of pixels a byte, or of memory are exceeded.
Tensor make_image(const ImageSource& source, const Shape& extents, std::size_t besides = 0);

}  // namespace tandem::datasets
