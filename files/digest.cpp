#include "files/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "files/input.h"

namespace tandem::files {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void check(int outcome) {
  if (outcome != 1) throw VendorError("SHA-256", "libcrypto cannot compute it");
}

}  // namespace

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Sha256::hex_so_far() const {
  Sha256 copy;
  check(EVP_MD_CTX_copy_ex(copy.state_->context, state_->context));
  return copy.hex();
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  check(EVP_DigestFinal_ex(state_->context, digest, &length));
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

std::string sha256_of_file(const std::string& path) {
  const files::InputFile file(path);
  Sha256 digest;
  std::vector<char> block(1 << 20);
  for (std::uint64_t at = 0; at < file.size();) {
    const std::uint64_t bytes = std::min<std::uint64_t>(block.size(), file.size() - at);
    file.read(at, block.data(), bytes);
    digest.add({block.data(), bytes});
    at += bytes;
  }
  return digest.hex();
}

}  // namespace tandem::files
