// JPEG through libjpeg. Errors arrive by longjmp: functions that it leaves hold no object with a destructor,
// and the caller's destructor releases the decompressor.
// jpeglib.h needs stdio before it, and jerror.h needs jpeglib.h.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "data/image_file.h"
#include "data/limits.h"
#include "data/orientation.h"

namespace tandem::datasets {

namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kLongestMarker = 0xffff;

struct JpegDecoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = {};
  bool created = false;

  JpegDecoder() = default;
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() {
    if (created) jpeg_destroy_decompress(&info);
  }
};

[[noreturn]] void escape_with(j_common_ptr info, const char* text) {
  auto* decoder = static_cast<JpegDecoder*>(info->client_data);
  std::snprintf(decoder->message, sizeof decoder->message, "%s", text);
  std::longjmp(decoder->escape, 1);
}

[[noreturn]] void on_error(j_common_ptr info) {
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  escape_with(info, text);
}

// Warnings mean damaged or truncated data, except three that leave the pixels intact.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR) return;
  on_error(info);
}

void on_progress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > kMaxProgressiveScans) escape_with(info, "too many progressive scans");
}

bool read_header(JpegDecoder& decoder, std::span<const std::byte> bytes, int channels) {
  jpeg_decompress_struct& info = decoder.info;
  info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.errors.output_message = [](j_common_ptr) {};
  if (setjmp(decoder.escape)) return false;
  info.client_data = &decoder;
  jpeg_create_decompress(&info);
  decoder.created = true;
  info.client_data = &decoder;
  decoder.progress.progress_monitor = on_progress;
  info.progress = &decoder.progress;
  jpeg_save_markers(&info, kExifMarker, kLongestMarker);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = cmyk                                                ? JCS_CMYK
                         : channels == 1 && info.jpeg_color_space != JCS_RGB ? JCS_GRAYSCALE
                                                                             : JCS_RGB;
  jpeg_calc_output_dimensions(&info);
  return true;
}

// Decodes into rows of `stride` bytes; `line` holds a row to convert.
bool read_rows(JpegDecoder& decoder, unsigned char* pixels, std::size_t stride, unsigned char* line,
               void (*convert)(const unsigned char* from, unsigned char* to, unsigned pixels,
                               bool inverted)) {
  if (setjmp(decoder.escape)) return false;
  jpeg_decompress_struct& info = decoder.info;
  jpeg_start_decompress(&info);
  const bool inverted = info.saw_Adobe_marker;
  while (info.output_scanline < info.output_height) {
    unsigned char* row = pixels + info.output_scanline * stride;
    unsigned char* target = convert ? line : row;
    if (jpeg_read_scanlines(&info, &target, 1) == 1 && convert)
      convert(line, row, info.output_width, inverted);
  }
  jpeg_finish_decompress(&info);
  return true;
}

unsigned char product(unsigned a, unsigned b) { return static_cast<unsigned char>((a * b + 127) / 255); }

// Adobe stores the inks inverted.
void cmyk_to_rgb(const unsigned char* from, unsigned char* to, unsigned pixels, bool inverted) {
  for (unsigned x = 0; x < pixels; ++x, from += 4, to += 3) {
    const unsigned flip = inverted ? 0 : 255;
    for (int c = 0; c < 3; ++c) to[c] = product(from[c] ^ flip, from[3] ^ flip);
  }
}

void cmyk_to_grey(const unsigned char* from, unsigned char* to, unsigned pixels, bool inverted) {
  for (unsigned x = 0; x < pixels; ++x, from += 4) {
    unsigned char rgb[3];
    cmyk_to_rgb(from, rgb, 1, inverted);
    to[x] = luma(rgb[0], rgb[1], rgb[2]);
  }
}

void rgb_to_grey(const unsigned char* from, unsigned char* to, unsigned pixels, bool) {
  for (unsigned x = 0; x < pixels; ++x, from += 3) to[x] = luma(from[0], from[1], from[2]);
}

// Memory of the coefficients that libjpeg keeps for a file of several scans.
std::size_t coefficient_bytes(jpeg_decompress_struct& info) {
  if (!jpeg_has_multiple_scans(&info)) return 0;
  std::size_t blocks = 0;
  for (int c = 0; c < info.num_components; ++c)
    blocks += std::size_t{info.comp_info[c].width_in_blocks} * info.comp_info[c].height_in_blocks;
  return blocks * sizeof(JBLOCK);
}

std::size_t marker_bytes(const jpeg_decompress_struct& info) {
  std::size_t bytes = 0;
  for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next)
    bytes += marker->data_length;
  return bytes;
}

// Orientation in the first EXIF block; APP1 may also hold XMP.
int orientation_of(const jpeg_decompress_struct& info) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::span<const JOCTET> data(marker->data, marker->data_length);
    if (data.size() >= kExif.size() && std::memcmp(data.data(), kExif.data(), kExif.size()) == 0)
      return exif_orientation(std::as_bytes(data.subspan(kExif.size())));
  }
  return 1;
}

}  // namespace

Tensor decode_jpeg(const ImageSource& source, int channels) {
  const std::string& name = source.name;
  JpegDecoder decoder;
  require(read_header(decoder, source.bytes, channels), name, "cannot be decoded as JPEG: {}",
          decoder.message);
  jpeg_decompress_struct& info = decoder.info;
  const Tensor image = make_image(source, {info.output_height, info.output_width, channels},
                                  coefficient_bytes(info) + marker_bytes(info));
  const int orientation = orientation_of(info);  // libjpeg drops markers once the rows are read
  const bool cmyk = info.out_color_space == JCS_CMYK;
  const auto convert = cmyk ? (channels == 3 ? cmyk_to_rgb : cmyk_to_grey)
                       : channels == 1 && info.out_color_space == JCS_RGB ? rgb_to_grey
                                                                          : nullptr;
  std::vector<unsigned char> line(convert ? std::size_t{info.output_width} * 4 : 0);
  const std::size_t stride = std::size_t{info.output_width} * static_cast<std::size_t>(channels);
  require(read_rows(decoder, image.data<std::uint8_t>(), stride, line.data(), convert), name,
          "cannot be decoded as JPEG: {}", decoder.message);
  return seen(source, image, orientation);
}

}  // namespace tandem::datasets
