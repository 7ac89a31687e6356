// SHA-256 (FIPS 180-4) in the format of sha256sum, computed by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tandem::files {

inline constexpr std::size_t kDigestLength = 64;  // hexadecimal digits

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  std::string hex_so_far() const;  // of the bytes so far; more may follow
  std::string hex();               // call it once, after the last `add`

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::string_view bytes);
// Digest of a whole file. Throws UserError unless it is a regular file, VendorError if it cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace tandem::files
