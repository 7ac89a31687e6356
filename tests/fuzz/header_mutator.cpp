// libFuzzer's mutations of safetensors files; most then restore the header's true length, because few others
// get past it.
#include <cstdint>
#include <cstring>
#include <string_view>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  constexpr std::size_t kLength = 8;
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 == 0 || size <= kLength) return size;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.rfind('}');
  if (end == std::string_view::npos || end < kLength) return size;
  const std::uint64_t length = end + 1 - kLength;
  std::memcpy(data, &length, kLength);
  return size;
}
