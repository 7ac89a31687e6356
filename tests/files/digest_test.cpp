#include "files/digest.h"

#include <random>

#include "tests/support/temporary_files.h"

using namespace tandem;
using testing::TemporaryDirectory;

namespace {

std::string noise(std::size_t bytes) {
  std::mt19937 random(5);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

}  // namespace

TEST_CASE("SHA-256 is that of the standard", "[digest]") {
  CHECK(files::sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(files::sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const TemporaryDirectory directory;
  const std::string text = noise(3'000'001);
  CHECK(files::sha256_of_file(directory.write("file", text)) == files::sha256(text));
  CHECK_THROWS_AS(files::sha256_of_file((directory.path() / "none").string()), UserError);
}
