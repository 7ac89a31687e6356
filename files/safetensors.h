// The safetensors format: u64 little-endian header length, a JSON header, the tensors' bytes.
// https://github.com/huggingface/safetensors
//
// Files are untrusted: every size and offset is checked before memory is allocated for it. Rejected are
// headers of more than 100,000,000 bytes or beyond the file, JSON nested deeper than 8, duplicate keys,
// shapes whose product overflows or does not match the bytes, and offsets with gaps or overlaps or another
// end than the file's. Little-endian hosts only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "files/input.h"

namespace tandem::safetensors {

using NamedTensor = std::pair<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

// Header entry of a tensor.
struct Entry {
  std::string name;
  std::string dtype;                   // as in the file: "F32", "BF16", "I64", "F8_E4M3", …
  std::vector<std::uint64_t> extents;  // any rank; a Tensor has at most kMaxRank
  std::uint64_t offset = 0;            // from the start of the file
  std::uint64_t bytes = 0;
};

// A file opened for reading. Throws UserError with the file and the violated rule.
class File {
 public:
  explicit File(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their bytes
  const Entry* find(std::string_view name) const;                 // nullptr if there is none
  const Metadata& metadata() const { return metadata_; }

  // Reads one tensor into host memory. Throws UserError if Tandem does not support the dtype or rank, or the
  // file has changed.
  Tensor read(const Entry& entry, MemoryKind kind = MemoryKind::data) const;
  // Throws UserError with the nearest name if there is no tensor of that name.
  Tensor read(std::string_view name) const;

 private:
  void read_header();

  std::string path_;
  files::InputFile input_;
  std::vector<Entry> entries_;
  Metadata metadata_;
};

// Writes the file atomically. Tensors have the order of the reference writer: larger elements first, then by
// name. Throws UserError for a name that is duplicate, empty, longer than 4096 bytes or "__metadata__",
// VendorError on a system error.
void write(const std::string& path, const std::vector<NamedTensor>& tensors, const Metadata& metadata = {});

// A whole file in memory, which can be written after its tensors have changed. Its memory is reused.
class Image {
 public:
  // Copies the tensors; the file equals that of `write`. Throws as `write`. `name` is for errors.
  void take(const std::string& name, const std::vector<NamedTensor>& tensors, const Metadata& metadata = {});
  std::string_view bytes() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0, capacity_ = 0;
};

// Name of a dtype in these files: "F32".
const char* file_dtype(DType dtype);

}  // namespace tandem::safetensors
