#include "tests/data/files.h"

#include <archive.h>
#include <archive_entry.h>
#include <png.h>
#include <unistd.h>
#include <zlib.h>

// jpeglib.h needs stdio before it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <cstdlib>
#include <fstream>
#include <span>
#include <stdexcept>

namespace tandem::datasets::testing {

TempFolder::TempFolder() {
  std::string pattern = (fs::temp_directory_path() / "tandem-data-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}
TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const fs::path& path, const Bytes& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

void write_gz(const fs::path& path, const Bytes& bytes) {
  fs::create_directories(path.parent_path());
  gzFile file = gzopen(path.c_str(), "wb6");
  if (!file ||
      gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) != static_cast<int>(bytes.size())) {
    throw std::runtime_error("cannot write " + path.string());
  }
  gzclose(file);
}

Bytes read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::span<const std::byte> as_bytes(const Bytes& bytes) { return std::as_bytes(std::span(bytes)); }

Bytes idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& extents, const Bytes& data) {
  Bytes bytes = {0, 0, type, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

std::string npy_header(const std::string& descr, bool fortran_order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

Bytes npy_bytes(const std::string& header, const Bytes& data, int version) {
  const std::size_t before = version == 1 ? 10 : 12;
  std::string text = header;
  while ((before + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(version), 0};
  for (std::size_t i = 0; i < (version == 1 ? 2U : 4U); ++i) {
    bytes.push_back(static_cast<std::uint8_t>(text.size() >> (8 * i)));
  }
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

void write_zip(const fs::path& path, const std::vector<ZipMember>& members) {
  archive* zip = archive_write_new();
  archive_write_set_format_zip(zip);
  if (archive_write_open_filename(zip, path.c_str()) != ARCHIVE_OK)
    throw std::runtime_error("cannot write a zip");
  for (const ZipMember& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(member.data.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(zip, entry);
    archive_write_data(zip, member.data.data(), member.data.size());
    archive_entry_free(entry);
  }
  archive_write_close(zip);
  archive_write_free(zip);
}

Bytes png_bytes(const PngOptions& options, const Bytes& rows) {
  Bytes bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp self, png_bytep data, std::size_t count) {
        auto* out = static_cast<Bytes*>(png_get_io_ptr(self));
        out->insert(out->end(), data, data + count);
      },
      nullptr);
  png_set_IHDR(png, info, options.width, options.height, options.bit_depth, options.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  const png_color palette[4] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}};
  if (options.color_type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 4);
  png_write_info(png, info);
  const std::size_t stride = png_get_rowbytes(png, info);
  if (rows.size() != stride * options.height) throw std::runtime_error("rows of the wrong size");
  std::vector<png_bytep> pointers;
  for (std::uint32_t y = 0; y < options.height; ++y)
    pointers.push_back(const_cast<png_bytep>(rows.data() + y * stride));
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

Bytes jpeg_bytes(const JpegOptions& options, const Bytes& pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = options.width;
  info.image_height = options.height;
  info.input_components = options.channels;
  info.in_color_space = options.channels == 1 ? JCS_GRAYSCALE : options.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + std::size_t{info.next_scanline} * options.width *
                                                            static_cast<std::size_t>(options.channels));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(buffer, buffer + size);
  std::free(buffer);
  return bytes;
}

Bytes random_bytes(std::size_t count, std::uint32_t which) {
  RandomStream random({.seed = 2024, .call = which});
  Bytes bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next_word());
  return bytes;
}

}  // namespace tandem::datasets::testing
