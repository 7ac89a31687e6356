#include "data/io/byte_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "data/limits.h"
#include "files/input.h"

namespace tandem::datasets {

void ByteReader::read(void* to, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  std::size_t missing = bytes;
  while (missing > 0) {
    const std::size_t got = read_some(at, missing);
    require(got > 0, name_, "truncated: {} bytes expected at byte {}, the file ends after {} of them", bytes,
            position_, bytes - missing);
    at += got;
    missing -= got;
  }
  position_ += bytes;
}

void ByteReader::expect_payload(std::size_t bytes) const {
  const std::size_t left = total_ - std::min(total_, position_);
  if (exact_) {
    require(bytes <= left, name_, "truncated: the header promises {} bytes of data, the file has {}", bytes,
            left);
    require(bytes == left, name_, "oversized: the header promises {} bytes of data, the file has {}", bytes,
            left);
  } else {
    require(bytes <= left, name_,
            "the header promises {} bytes of data, a compressed file of this size may hold at most {}; "
            "unpack it if it is valid",
            bytes, left);
  }
}

void ByteReader::expect_end() {
  std::byte extra;
  require(read_some(&extra, 1) == 0, name_, "oversized: data continues after byte {}, its end by the header",
          position_);
}

namespace {

// zlib also reads plain files.
class FileReader final : public ByteReader {
 public:
  explicit FileReader(const std::filesystem::path& path) : ByteReader(path.string()) {
    files::InputFile file(path);
    file_ = gzdopen(file.descriptor(), "rb");
    require(file_ != nullptr, name(), "cannot be opened: {}", std::strerror(errno));
    file.release();  // gzclose closes it
    gzbuffer(file_, 1U << 17);
    exact_ = gzdirect(file_) == 1;
    total_ = exact_ ? file.size() : most_unpacked(file.size());
  }
  ~FileReader() override {
    if (file_) gzclose(file_);
  }

 private:
  std::size_t read_some(void* to, std::size_t bytes) override {
    const auto chunk = static_cast<unsigned>(std::min<std::size_t>(bytes, 1U << 30));
    const int got = gzread(file_, to, chunk);
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    require(got >= 0 && code != Z_BUF_ERROR, name(), "{} at byte {}: {}",
            code == Z_BUF_ERROR ? "truncated" : "damaged", position(), message);
    return static_cast<std::size_t>(got);
  }

  gzFile file_ = nullptr;
};

class MemoryReader final : public ByteReader {
 public:
  MemoryReader(std::span<const std::byte> bytes, std::string name)
      : ByteReader(std::move(name)), rest_(bytes) {
    total_ = bytes.size();
  }

 private:
  std::size_t read_some(void* to, std::size_t bytes) override {
    const std::size_t count = std::min(bytes, rest_.size());
    if (count > 0) std::memcpy(to, rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }

  std::span<const std::byte> rest_;
};

}  // namespace

std::unique_ptr<ByteReader> open_file(const std::filesystem::path& path) {
  return std::make_unique<FileReader>(path);
}

std::unique_ptr<ByteReader> open_memory(std::span<const std::byte> bytes, std::string name) {
  return std::make_unique<MemoryReader>(bytes, std::move(name));
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t limit) {
  const files::InputFile file(path);
  require(file.size() <= limit, file.path(), "has {} bytes, the limit is {}", file.size(), limit);
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::string line;
  for (const char letter : files::read_text_if_there(path, 1U << 20).value_or("")) {
    if (letter != '\n' && letter != '\r') {
      line += letter;
    } else if (!line.empty()) {
      lines.push_back(std::move(line));
      line.clear();
    }
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::size_t most_unpacked(std::uintmax_t packed) {
  const std::size_t bytes = std::min<std::uintmax_t>(packed, kMaxArrayBytes);
  return std::min(bytes * kDeflateRatio, kFreeArchiveBytes + bytes * kMaxArchiveRatio);
}

std::size_t checked_bytes(std::span<const Index> extents, std::size_t element_bytes, std::string_view where) {
  std::size_t bytes = element_bytes;
  for (const Index extent : extents) {
    require(extent >= 0, where, "an extent of {} is negative", extent);
    if (extent == 0) return 0;
    require(bytes <= kMaxArrayBytes / static_cast<std::size_t>(extent), where,
            "its extents come to more than {} bytes", kMaxArrayBytes);
    bytes *= static_cast<std::size_t>(extent);
  }
  return bytes;
}

}  // namespace tandem::datasets
