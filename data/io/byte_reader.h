// Sequential bytes of a file, a gzip file, an archive member or memory.
//
// A format's reader takes the payload size from the header, calls `expect_payload`, which checks it against
// the source, and only then allocates.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tandem::datasets {

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  // Reads exactly `bytes` bytes. Throws UserError that names the file when it ends early or is damaged.
  void read(void* to, std::size_t bytes);
  // Throws UserError unless `bytes` bytes can follow: exactly for plain sources, by the compression's bound
  // otherwise.
  void expect_payload(std::size_t bytes) const;
  // Throws UserError when data follows. Verifies the checksum of a compressed source.
  void expect_end();

  const std::string& name() const { return name_; }
  std::size_t position() const { return position_; }

 protected:
  explicit ByteReader(std::string name) : name_(std::move(name)) {}
  // Up to `bytes` bytes; 0 at the end.
  virtual std::size_t read_some(void* to, std::size_t bytes) = 0;

  std::size_t total_ = 0;  // size of the source in bytes, or an upper bound
  bool exact_ = true;      // total_ is exact

 private:
  std::string name_;
  std::size_t position_ = 0;
};

// Opens a file, and decompresses it if its content is gzip. Throws UserError when there is no such file.
std::unique_ptr<ByteReader> open_file(const std::filesystem::path& path);
// `bytes` must outlive the reader.
std::unique_ptr<ByteReader> open_memory(std::span<const std::byte> bytes, std::string name);

// Reads a plain file. Throws UserError when it cannot be read or exceeds `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t limit);

// Lines without their ends and without empty lines, of at most 1 MiB. Returns none when there is no such
// file.
std::vector<std::string> read_lines(const std::filesystem::path& path);

}  // namespace tandem::datasets
