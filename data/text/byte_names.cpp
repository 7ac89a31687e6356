#include "data/text/byte_names.h"

#include <algorithm>
#include <numeric>

#include "data/text/unicode.h"

namespace tandem::datasets {

namespace {

constexpr char32_t kFirstShifted = 0x100;

constexpr bool keeps_its_number(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<char32_t, 256> kNameOfByte = [] {
  std::array<char32_t, 256> names{};
  char32_t shifted = kFirstShifted;
  for (int byte = 0; byte < 256; ++byte)
    names[static_cast<std::size_t>(byte)] = keeps_its_number(byte) ? static_cast<char32_t>(byte) : shifted++;
  return names;
}();

}  // namespace

const std::array<unsigned char, 256>& bytes_by_name() {
  static const std::array<unsigned char, 256> order = [] {
    std::array<unsigned char, 256> bytes{};
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    std::ranges::sort(bytes, {}, [](unsigned char byte) { return kNameOfByte[byte]; });
    return bytes;
  }();
  return order;
}

std::string name_of_bytes(std::string_view bytes) {
  std::string name;
  for (const char byte : bytes) append_character(name, kNameOfByte[static_cast<unsigned char>(byte)]);
  return name;
}

std::optional<std::string> bytes_of_name(std::string_view name) {
  std::string bytes;
  while (!name.empty()) {
    const Character next = first_character(name);
    const auto* const found = std::ranges::find(kNameOfByte, next.value);
    if (found == kNameOfByte.end()) return std::nullopt;
    bytes += static_cast<char>(found - kNameOfByte.begin());
    name.remove_prefix(next.bytes);
  }
  return bytes;
}

}  // namespace tandem::datasets
