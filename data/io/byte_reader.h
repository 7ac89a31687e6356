// Bytes from a file, a gzip file, a member of an archive or memory, read once from front to back.
//
// A format's reader learns a payload's size from the header, calls `expect_payload` – which compares it with
// what the source can still deliver – and only then allocates.
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

  // Exactly `bytes` bytes. Throws UserError naming the file when it ends before or is damaged.
  void read(void* to, std::size_t bytes);
  // Throws UserError unless exactly `bytes` bytes can follow: an equality for plain sources, the
  // compression's bound for compressed ones.
  void expect_payload(std::size_t bytes) const;
  // Throws UserError when anything follows. Checks the checksum of a compressed source.
  void expect_end();

  const std::string& name() const { return name_; }
  std::size_t position() const { return position_; }

 protected:
  explicit ByteReader(std::string name) : name_(std::move(name)) {}
  // Up to `bytes` bytes; 0 at the end.
  virtual std::size_t read_some(void* to, std::size_t bytes) = 0;

  std::size_t total_ = 0;  // bytes of the whole source, or the most there can be
  bool exact_ = true;      // whether total_ is the former

 private:
  std::string name_;
  std::size_t position_ = 0;
};

// A file as it is, or decompressed if it is a gzip file (decided by its content). Throws UserError when it is
// not there.
std::unique_ptr<ByteReader> open_file(const std::filesystem::path& path);
// `bytes` must outlive the reader.
std::unique_ptr<ByteReader> open_memory(std::span<const std::byte> bytes, std::string name);

// The whole of a plain file; throws UserError when it cannot be read or has more than `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t limit);

// Lines without their ends, empty ones left out; at most 1 MiB. Empty when there is no such file.
std::vector<std::string> read_lines(const std::filesystem::path& path);

}  // namespace tandem::datasets
