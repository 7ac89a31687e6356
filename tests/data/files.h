// Files for tests of data/: a temporary folder, and small encoders.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/random.h"

namespace tandem::datasets::testing {

namespace fs = std::filesystem;

using Bytes = std::vector<std::uint8_t>;

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  fs::path operator/(const fs::path& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_file(const fs::path& path, const Bytes& bytes);  // makes the folders above it
void write_gz(const fs::path& path, const Bytes& bytes);
Bytes read_bytes(const fs::path& path);

std::span<const std::byte> as_bytes(const Bytes& bytes);

// 00 00 type rank, extents, data.
Bytes idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& extents, const Bytes& data);
// A .npy file of version `version`.
Bytes npy_bytes(const std::string& header, const Bytes& data, int version = 1);
std::string npy_header(const std::string& descr, bool fortran_order, const std::string& shape);

struct ZipMember {
  std::string name;
  Bytes data;
};
void write_zip(const fs::path& path, const std::vector<ZipMember>& members);

struct PngOptions {
  std::uint32_t width = 1, height = 1;
  int color_type = 2;  // as in the file: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA
  int bit_depth = 8;
  bool interlaced = false;
};
// `rows` holds the rows as stored (big-endian for 16 bits). The palette of type 3 is red, green, blue, white.
Bytes png_bytes(const PngOptions& options, const Bytes& rows);

struct JpegOptions {
  std::uint32_t width = 8, height = 8;
  int channels = 3;  // 1 grey, 3 RGB, 4 CMYK (inverted, as Adobe writes it)
  int quality = 95;
  bool progressive = false;
};
Bytes jpeg_bytes(const JpegOptions& options, const Bytes& pixels);

// Reproducible bytes.
Bytes random_bytes(std::size_t count, std::uint32_t which);

// Runs `call`: true when it succeeds, false on UserError; anything else propagates.
template <class Call>
bool succeeds(const Call& call) {
  try {
    call();
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace tandem::datasets::testing
