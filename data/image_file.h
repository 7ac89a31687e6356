// JPEG and PNG files as u8 [H,W,C] tensors, by libjpeg and libpng.
//
// Embedded colour profiles and gamma are ignored. CMYK becomes RGB, 16 bits become 8, palettes are resolved,
// and transparent images are composed over white. Pixels are turned by the EXIF orientation
// (data/orientation.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace tandem::datasets {

// Default limit on the memory to decode one image: 89 million colour pixels.
inline constexpr std::size_t kImageMemory = std::size_t{256} << 20;

// Options of image decoding.
struct ImageReading {
  std::size_t memory = kImageMemory;  // limit for one image
  bool upright = true;                // apply the EXIF orientation
};
inline ImageReading as_stored(ImageReading reading) {
  reading.upright = false;
  return reading;
}

// `channels`: 3 (grey is repeated), 1 (colours become luma), or 4 for PNG only (colours with alpha, not
// composed). Throws UserError that names `name` when the bytes are neither JPEG nor PNG, are damaged, exceed
// the limits of data/limits.h, or need more memory than allowed, the file included.
Tensor decode_image(std::span<const std::byte> bytes, const std::string& name, int channels = 3,
                    const ImageReading& reading = {});
Tensor read_image(const std::filesystem::path& path, int channels = 3, const ImageReading& reading = {});

// Palette indices or grey values of a PNG of at most 8 bits: u8 [H,W]. Throws UserError for any other file.
Tensor read_indices(const std::filesystem::path& path, const ImageReading& reading = {});

// By extension in any case: .jpg, .jpeg, .png.
bool is_image_file(const std::filesystem::path& path);

struct PassedOver;

// Image files in a folder and its subfolders, each sorted by name. Symbolic links are followed; each folder
// is searched once. Hidden and foreign files are left out (data/passed_over.h) and counted, as are files of
// other kinds. With `check_files`, throws UserError when an image name is not a regular file; otherwise
// reading it throws.
std::vector<std::filesystem::path> image_files_below(const std::filesystem::path& folder,
                                                     bool check_files = true,
                                                     PassedOver* passed_over = nullptr);

// The first folder of `names` that exists in `root`; empty if there is none.
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

// Decoders of one format; the bytes start with its signature.
Tensor decode_jpeg(const ImageSource& source, int channels);
Tensor decode_png(const ImageSource& source, int channels);
Tensor decode_png_indices(const ImageSource& source);

// An uninitialised image; `besides` is the decoder's own memory in bytes. Throws UserError when a side is 0,
// or when a limit of pixels, of pixels per byte or of memory is exceeded.
Tensor make_image(const ImageSource& source, const Shape& extents, std::size_t besides = 0);

}  // namespace tandem::datasets
