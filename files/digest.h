// SHA-256 (FIPS 180-4), as sha256sum prints it; computed by OpenSSL's libcrypto.
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
  std::string hex_so_far() const;  // of what was added until now; more may follow
  std::string hex();               // once, after the last `add`

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::string_view bytes);
// Of a whole file. Throws UserError naming it when it is no regular file, VendorError when it cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace tandem::files
