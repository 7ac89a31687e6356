// The safetensors format: u64 little-endian header length, a JSON header, the tensors' bytes.
// https://github.com/huggingface/safetensors
//
// Files are untrusted data: every size and offset is checked before anything is allocated for it. Refused are
// a header of more than 100,000,000 bytes or beyond the file, JSON nested deeper than 8, duplicate keys,
// shapes whose product overflows or does not match the bytes, and offsets that leave a gap, overlap or do not
// end at the end of the file. Little-endian hosts only.
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

// What the header says of one tensor.
struct Entry {
  std::string name;
  std::string dtype;                   // as in the file: "F32", "BF16", "I64", "F8_E4M3", …
  std::vector<std::uint64_t> extents;  // any rank; a Tensor has at most kMaxRank
  std::uint64_t offset = 0;            // of the first byte, from the start of the file
  std::uint64_t bytes = 0;
};

// A file opened for reading. Throws UserError naming the file and the rule it breaks.
class File {
 public:
  explicit File(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their bytes
  const Entry* find(std::string_view name) const;                 // nullptr when there is none
  const Metadata& metadata() const { return metadata_; }

  // Reads one tensor into host memory. Throws UserError when Tandem has no such dtype or rank, or the file
  // changed.
  Tensor read(const Entry& entry, MemoryKind kind = MemoryKind::data) const;
  // Throws UserError when there is no tensor of that name, with the nearest one.
  Tensor read(std::string_view name) const;

 private:
  void read_header();

  std::string path_;
  files::InputFile input_;
  std::vector<Entry> entries_;
  Metadata metadata_;
};

// Writes the whole file beside its place, synchronises it and renames it there. Tensors stand in the order of
// the reference writer: larger elements first, then by name. Throws UserError for a name that is given twice,
// empty, longer than 4096 bytes or "__metadata__", and VendorError when the system refuses.
void write(const std::string& path, const std::vector<NamedTensor>& tensors, const Metadata& metadata = {});

// A whole file in memory, to be written when its tensors have changed already. Its memory is used again.
class Image {
 public:
  // Copies the tensors; the file is the one that `write` writes. Throws as `write` does. `name` is for
  // errors.
  void take(const std::string& name, const std::vector<NamedTensor>& tensors, const Metadata& metadata = {});
  std::string_view bytes() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0, capacity_ = 0;
};

// "F32"; the name of a dtype in these files.
const char* file_dtype(DType dtype);

}  // namespace tandem::safetensors
