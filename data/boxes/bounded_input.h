// A file as a stream for event-driven parsers, with bounded memory.
#pragma once

#include <cstdint>
#include <streambuf>
#include <vector>

#include "files/input.h"

namespace tandem::datasets {

// Reads a file in chunks from begin to end. A parser buffers a token until it reports it, and then calls
// `reported`; a token that never ends is thus stopped. Throws UserError that names the file: more than
// `longest` bytes without a report, or a NUL byte, which nlohmann's parser takes for the end.
class BoundedInput final : public std::streambuf {
 public:
  static constexpr std::size_t kChunk = std::size_t{64} << 10;
  static constexpr std::size_t kLongest = std::size_t{16} << 20;

  // Keeps a reference to `file`.
  explicit BoundedInput(const files::InputFile& file, std::size_t longest = kLongest,
                        std::size_t chunk = kChunk)
      : file_(file), longest_(longest), chunk_(chunk) {}

  void reported() { silent_ = 0; }

 protected:
  int_type underflow() override;

 private:
  const files::InputFile& file_;
  std::size_t longest_;
  std::uint64_t offset_ = 0;  // end of the current chunk
  std::size_t silent_ = 0;    // bytes of chunks since the last report
  std::vector<char> chunk_;
};

}  // namespace tandem::datasets
