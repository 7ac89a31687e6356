#include "files/base64.h"

#include <openssl/evp.h>

#include "core/error.h"

namespace tandem::files {

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with OpenSSL's final zero
  const int written =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(written));
  return text;
}

std::string from_base64(std::string_view text, std::string_view where) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // OpenSSL counts in int
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes(text.size() / 4 * 3, '\0');
  const bool whole = text.size() % 4 == 0 && text.size() <= kMost &&
                     EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size())) >= 0;
  if (whole) bytes.resize(bytes.size() - padding);
  // OpenSSL ignores white space and unused bits.
  require(whole && base64(bytes) == text, where, "{} characters that should be base64 are not", text.size());
  return bytes;
}

}  // namespace tandem::files
