// PNG through libpng. Errors arrive by longjmp: functions that it leaves hold no object with a destructor,
// and the caller's destructor releases the reader.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "data/image_file.h"
#include "data/orientation.h"

namespace tandem::datasets {

namespace {

struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const std::byte* next = nullptr;
  std::size_t left = 0;
  char message[256] = {};

  PngDecoder() = default;
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_read_error(png_structp png, png_const_charp text) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message, sizeof decoder->message, "%s", text);
  png_longjmp(png, 1);
}

void on_read_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, std::size_t bytes) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (bytes > decoder->left) png_error(png, "truncated");
  std::memcpy(to, decoder->next, bytes);
  decoder->next += bytes;
  decoder->left -= bytes;
}

// Output format of pixels.
enum class Pixels : std::uint8_t { grey = 1, rgb = 3, rgba = 4, indices };

bool read_header(PngDecoder& decoder, Pixels pixels) {
  png_structp png = decoder.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &decoder, on_read);
  png_set_user_limits(png, 1000000, 1000000);
  png_set_chunk_malloc_max(png, 8U << 20);
  png_set_chunk_cache_max(png, 128);
  png_set_crc_action(png, PNG_CRC_DEFAULT, PNG_CRC_WARN_DISCARD);
  png_read_info(png, decoder.info);
  const png_byte type = png_get_color_type(png, decoder.info);
  if (pixels == Pixels::indices) {
    png_set_packing(png);  // one byte each, of the same value
  } else {
    png_set_expand(png);  // palettes, fewer than 8 bits, and transparent colours as alpha
    png_set_scale_16(png);
    const bool grey = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA;
    if (pixels != Pixels::grey && grey) png_set_gray_to_rgb(png);
    if (pixels == Pixels::rgba) png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);  // if there is none
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  return true;
}

// Conversion of a row of libpng: composes over white, and converts to luma for one channel.
struct RowConversion {
  std::int64_t width;
  int colours;  // stored: 3 or 1, without alpha
  bool has_alpha;
  int channels;  // of the output; the fourth is alpha

  bool any() const { return channels != 4 && (has_alpha || colours != channels); }
  // `to` may be `from`.
  void operator()(const unsigned char* from, unsigned char* to) const {
    for (std::int64_t x = 0; x < width; ++x, from += colours + (has_alpha ? 1 : 0), to += channels) {
      unsigned char pixel[3];
      for (int c = 0; c < colours; ++c) pixel[c] = has_alpha ? over_white(from[c], from[colours]) : from[c];
      if (colours == channels) {
        std::copy_n(pixel, channels, to);
      } else {
        *to = luma(pixel[0], pixel[1], pixel[2]);
      }
    }
  }

 private:
  static unsigned char over_white(unsigned colour, unsigned alpha) {
    return static_cast<unsigned char>((colour * alpha + 255 * (255 - alpha) + 127) / 255);
  }
};

// Decodes row by row; `line` holds a row to convert.
bool read_rows(PngDecoder& decoder, const RowConversion& convert, unsigned char* pixels,
               unsigned char* line) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  const png_uint_32 height = png_get_image_height(decoder.png, decoder.info);
  for (png_uint_32 y = 0; y < height; ++y) {
    unsigned char* const row = pixels + y * convert.width * convert.channels;
    png_read_row(decoder.png, convert.any() ? line : row, nullptr);
    if (convert.any()) convert(line, row);
  }
  png_read_end(decoder.png, decoder.info);
  return true;
}

bool read_interlaced(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, decoder.info);
  return true;
}

// Reads the header and sets the conversions. Throws UserError that names the source.
void open_png(PngDecoder& decoder, const ImageSource& source, Pixels pixels) {
  decoder.next = source.bytes.data();
  decoder.left = source.bytes.size();
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_read_error, on_read_warning);
  if (decoder.png) decoder.info = png_create_info_struct(decoder.png);
  if (!decoder.info) throw VendorError("libpng", "returned no reader");
  require(read_header(decoder, pixels), source.name, "cannot be decoded as PNG: {}", decoder.message);
}

// Pixels [height,width,channels]; libpng returns `stored` values per pixel.
Tensor read_pixels(PngDecoder& decoder, const ImageSource& source, const RowConversion& convert, int stored) {
  const std::int64_t height = png_get_image_height(decoder.png, decoder.info), width = convert.width;
  const auto stride = static_cast<std::size_t>(width * stored);
  ensure(png_get_rowbytes(decoder.png, decoder.info) == stride, source.name, "PNG rows of unexpected length");

  // The passes of an interlaced image fill rows in several steps. It is converted in place when complete.
  const bool interlaced = png_get_interlace_type(decoder.png, decoder.info) != PNG_INTERLACE_NONE;
  const Tensor image = make_image(source, {height, width, interlaced ? stored : convert.channels});
  std::uint8_t* const pixels = image.data<std::uint8_t>();
  if (!interlaced) {
    std::vector<unsigned char> line(convert.any() ? stride : 0);
    require(read_rows(decoder, convert, pixels, line.data()), source.name, "cannot be decoded as PNG: {}",
            decoder.message);
    return image;
  }
  std::vector<png_bytep> rows(static_cast<std::size_t>(height));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = pixels + y * stride;
  require(read_interlaced(decoder, rows.data()), source.name, "cannot be decoded as PNG: {}",
          decoder.message);
  if (!convert.any()) return image;
  for (std::int64_t y = 0; y < height; ++y)
    convert(rows[static_cast<std::size_t>(y)], pixels + y * width * convert.channels);
  return Tensor::over(image.storage(), image.offset(), {height, width, convert.channels}, DType::u8);
}

// Orientation in the eXIf chunk, which may precede or follow the pixels.
int orientation_of(PngDecoder& decoder) {
  png_uint_32 bytes = 0;
  png_bytep block = nullptr;
  if (png_get_eXIf_1(decoder.png, decoder.info, &bytes, &block) == 0) return 1;
  return exif_orientation(std::as_bytes(std::span(block, bytes)));
}

}  // namespace

Tensor decode_png(const ImageSource& source, int channels) {
  PngDecoder decoder;
  open_png(decoder, source, static_cast<Pixels>(channels));
  const std::int64_t width = png_get_image_width(decoder.png, decoder.info);
  const int stored = png_get_channels(decoder.png, decoder.info);
  const bool has_alpha = stored == 2 || stored == 4;
  const RowConversion convert{width, has_alpha ? stored - 1 : stored, has_alpha, channels};
  ensure(channels == 4 ? stored == 4 : convert.colours == 3 || (convert.colours == 1 && channels == 1),
         source.name, "PNG of {} channels after expansion", stored);
  const Tensor image = read_pixels(decoder, source, convert, stored);
  return seen(source, image, orientation_of(decoder));
}

Tensor decode_png_indices(const ImageSource& source) {
  PngDecoder decoder;
  open_png(decoder, source, Pixels::indices);
  const png_byte type = png_get_color_type(decoder.png, decoder.info);
  require(type == PNG_COLOR_TYPE_PALETTE || type == PNG_COLOR_TYPE_GRAY, source.name,
          "is a PNG of colours{}; the classes of a mask are palette indices or grey values",
          (type & PNG_COLOR_MASK_ALPHA) != 0 ? " with transparency" : "");
  require(png_get_bit_depth(decoder.png, decoder.info) <= 8, source.name,
          "has 16 bits a pixel; a mask has at most 8");
  const std::int64_t width = png_get_image_width(decoder.png, decoder.info);
  const Tensor stored = read_pixels(decoder, source, {width, 1, false, 1}, 1);
  const Tensor indices = seen(source, stored, orientation_of(decoder));
  return indices.viewed(indices.shape().without(2));
}

}  // namespace tandem::datasets
