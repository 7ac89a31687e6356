// Errors of libpng arrive by longjmp, as in data/png.cpp: functions that it leaves hold no object with a
// destructor.
#include "data/png_write.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <vector>

#include "core/error.h"

namespace tandem::datasets {

namespace {

struct PngEncoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes;
  char message[256] = {};

  PngEncoder() = default;
  PngEncoder(const PngEncoder&) = delete;
  PngEncoder& operator=(const PngEncoder&) = delete;
  ~PngEncoder() { png_destroy_write_struct(&png, &info); }
};

[[noreturn]] void on_write_error(png_structp png, png_const_charp text) {
  auto* encoder = static_cast<PngEncoder*>(png_get_error_ptr(png));
  std::snprintf(encoder->message, sizeof encoder->message, "%s", text);
  png_longjmp(png, 1);
}

void on_write_warning(png_structp, png_const_charp) {}

void on_write(png_structp png, png_bytep from, std::size_t count) {
  auto* encoder = static_cast<PngEncoder*>(png_get_io_ptr(png));
  try {
    encoder->bytes.append(reinterpret_cast<const char*>(from), count);
    return;
  } catch (const std::bad_alloc&) {
  }
  png_error(png, "out of memory");  // not in the handler, which a jump would leave unfinished
}

struct Picture {
  png_uint_32 width, height;
  int type;
  const png_color* palette;
  int colours;
};

bool write_picture(PngEncoder& encoder, const Picture& picture, png_bytepp rows) {
  png_structp png = encoder.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_write_fn(png, &encoder, on_write, nullptr);
  png_set_IHDR(png, encoder.info, picture.width, picture.height, 8, picture.type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (picture.colours > 0) png_set_PLTE(png, encoder.info, picture.palette, picture.colours);
  png_write_info(png, encoder.info);
  png_write_image(png, rows);
  png_write_end(png, encoder.info);
  return true;
}

std::string encoded(const Tensor& pixels, const Picture& picture) {
  PngEncoder encoder;
  encoder.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &encoder, on_write_error, on_write_warning);
  if (encoder.png) encoder.info = png_create_info_struct(encoder.png);
  if (!encoder.info) throw VendorError("libpng", "returned no writer");
  std::vector<png_bytep> rows(picture.height);
  const std::size_t stride = pixels.bytes() / picture.height;
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data<std::uint8_t>() + y * stride;
  if (!write_picture(encoder, picture, rows.data()))
    throw VendorError("libpng", fmt::format("could not write a PNG: {}", encoder.message));
  return std::move(encoder.bytes);
}

void require_pixels(const Tensor& image, bool fits) {
  ensure(image.dtype() == DType::u8 && image.device() == Device{} && fits && image.numel() > 0, "png",
         "pixels of {} {}", name_of(image.dtype()), to_string(image.shape()));
}

}  // namespace

std::string png_of(const Tensor& image) {
  const bool colours = image.rank() == 3 && image.size(2) == 3;
  require_pixels(image, colours || image.rank() == 2 || (image.rank() == 3 && image.size(2) == 1));
  return encoded(image, {.width = static_cast<png_uint_32>(image.size(1)),
                         .height = static_cast<png_uint_32>(image.size(0)),
                         .type = colours ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
                         .palette = nullptr,
                         .colours = 0});
}

std::string indexed_png_of(const Tensor& indices, std::span<const Colour> palette) {
  require_pixels(indices, indices.rank() == 2);
  ensure(!palette.empty() && palette.size() <= 256, "png", "a palette of {} colours", palette.size());
  const std::span<const std::uint8_t> values(indices.data<std::uint8_t>(),
                                             static_cast<std::size_t>(indices.numel()));
  const auto greatest = *std::ranges::max_element(values);
  ensure(greatest < palette.size(), "png", "index {} in a palette of {} colours", greatest, palette.size());
  std::vector<png_color> colours;
  for (const auto& [red, green, blue] : palette) colours.push_back({red, green, blue});
  return encoded(indices, {.width = static_cast<png_uint_32>(indices.size(1)),
                           .height = static_cast<png_uint_32>(indices.size(0)),
                           .type = PNG_COLOR_TYPE_PALETTE,
                           .palette = colours.data(),
                           .colours = static_cast<int>(colours.size())});
}

}  // namespace tandem::datasets
