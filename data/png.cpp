// PNG through libpng. Its errors arrive by longjmp: the functions that may be jumped out of hold no object
// with a destructor, and the reader is released by the caller's destructor.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "data/image_file.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const std::byte* next = nullptr;
  std::size_t left = 0;
  char message[256] = {};

  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto* decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message, sizeof decoder->message, "%s", text);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, std::size_t bytes) {
  auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (bytes > decoder->left) png_error(png, "truncated");
  std::memcpy(to, decoder->next, bytes);
  decoder->next += bytes;
  decoder->left -= bytes;
}

bool read_header(Decoder& decoder, int channels) {
  png_structp png = decoder.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &decoder, on_read);
  png_set_user_limits(png, 1000000, 1000000);
  png_set_chunk_malloc_max(png, 8U << 20);
  png_set_chunk_cache_max(png, 128);
  png_set_crc_action(png, PNG_CRC_DEFAULT, PNG_CRC_WARN_DISCARD);
  png_read_info(png, decoder.info);
  png_set_expand(png);  // palettes, fewer than 8 bits, and transparent colours as alpha
  png_set_scale_16(png);
  const png_byte type = png_get_color_type(png, decoder.info);
  const bool grey = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA;
  if (channels == 3 && grey) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  return true;
}

bool read_rows(Decoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

// `from` has `channels` colours and alpha.
void lay_over_white(const unsigned char* from, std::int64_t pixels, int channels, unsigned char* to) {
  for (std::int64_t i = 0; i < pixels; ++i, from += channels + 1, to += channels) {
    const unsigned alpha = from[channels];
    for (int c = 0; c < channels; ++c)
      to[c] = static_cast<unsigned char>((from[c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
}

Tensor to_grey(const Tensor& image, std::size_t file_bytes, const std::string& name) {
  const Tensor grey = make_image(image.shape()[0], image.shape()[1], 1, file_bytes, name);
  const std::uint8_t* from = image.data<std::uint8_t>();
  std::uint8_t* to = grey.data<std::uint8_t>();
  for (Index i = 0; i < grey.numel(); ++i, from += 3) to[i] = luma(from[0], from[1], from[2]);
  return grey;
}

}  // namespace

Tensor decode_png(std::span<const std::byte> bytes, const std::string& name, int channels) {
  Decoder decoder;
  decoder.next = bytes.data();
  decoder.left = bytes.size();
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png) decoder.info = png_create_info_struct(decoder.png);
  if (!decoder.info) throw VendorError("libpng", "gave no reader");
  require(read_header(decoder, channels), name, "cannot be decoded as PNG: {}", decoder.message);

  const std::int64_t height = png_get_image_height(decoder.png, decoder.info);
  const std::int64_t width = png_get_image_width(decoder.png, decoder.info);
  const int stored = png_get_channels(decoder.png, decoder.info);
  const bool has_alpha = stored == 2 || stored == 4;
  const int colours = has_alpha ? stored - 1 : stored;
  ensure(colours == 3 || (colours == 1 && channels == 1), name, "PNG of {} channels after expansion", stored);
  const Tensor raw = make_image(height, width, stored, bytes.size(), name);
  const auto stride = static_cast<std::size_t>(width * stored);
  ensure(png_get_rowbytes(decoder.png, decoder.info) == stride, name, "PNG rows of unexpected length");
  std::vector<png_bytep> rows(static_cast<std::size_t>(height));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = raw.data<std::uint8_t>() + y * stride;
  require(read_rows(decoder, rows.data()), name, "cannot be decoded as PNG: {}", decoder.message);

  Tensor image = raw;
  if (has_alpha) {
    image = make_image(height, width, colours, bytes.size(), name);
    lay_over_white(raw.data<std::uint8_t>(), height * width, colours, image.data<std::uint8_t>());
  }
  return colours == channels ? image : to_grey(image, bytes.size(), name);
}

}  // namespace tandem::datasets
