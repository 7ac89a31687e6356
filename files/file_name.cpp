#include "files/file_name.h"

#include <fmt/core.h>

#include "files/digest.h"

namespace tandem::files {

std::string as_file_name(std::string_view text) {
  std::string name;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = byte >= 0x20 && byte != 0x7F && letter != '/' && letter != '\\' && letter != '%' &&
                       !(letter == '.' && name.empty());
    name += plain ? std::string(1, letter) : fmt::format("%{:02X}", byte);
  }
  if (name.size() <= kLongestName) return name;
  constexpr std::size_t kDigits = 16;
  std::size_t kept = kLongestName - kDigits - 1;
  const auto continues = [&] { return (static_cast<unsigned char>(name[kept]) & 0xC0U) == 0x80U; };
  while (kept > 0 && continues()) --kept;  // does not split a UTF-8 character
  return fmt::format("{}~{}", name.substr(0, kept), sha256(text).substr(0, kDigits));
}

}  // namespace tandem::files
