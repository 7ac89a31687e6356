// A file as a stream of which little is in memory: for parsers that call back as they go.
#pragma once

#include <cstdint>
#include <streambuf>
#include <string>
#include <vector>

#include "files/input.h"

namespace tandem::datasets {

// Reads a file in chunks from its begin to its end. A parser gathers what it reads until it can report it;
// `reported` is to be called whenever it has, so that one that would gather without end is stopped. Throws
// UserError naming the file: more than `longest` bytes without a report, or a NUL byte, which nlohmann's
// parser takes for the end.
class BoundedInput final : public std::streambuf {
 public:
  static constexpr std::size_t kChunk = std::size_t{64} << 10;
  static constexpr std::size_t kLongest = std::size_t{16} << 20;

  // `file` outlives it.
  explicit BoundedInput(const files::InputFile& file, std::size_t longest = kLongest,
                        std::size_t chunk = kChunk)
      : file_(file), longest_(longest), chunk_(chunk) {}

  void reported() { silent_ = 0; }

 protected:
  int_type underflow() override;

 private:
  const files::InputFile& file_;
  std::size_t longest_;
  std::uint64_t offset_ = 0;  // of what follows the chunk
  std::size_t silent_ = 0;    // bytes of chunks that were begun since the last report
  std::vector<char> chunk_;
};

}  // namespace tandem::datasets
