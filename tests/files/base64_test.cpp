// Bytes as text and back: the vectors of RFC 4648, 10.
#include "files/base64.h"

#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("base64: the vectors of RFC 4648, both ways", "[base64]") {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    CHECK(files::base64(bytes) == text);
    CHECK(files::from_base64(text, "test") == bytes);
  }
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(files::from_base64(files::base64(all), "test") == all);
}

TEST_CASE("invalid base64 is refused", "[base64]") {
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zm9v Zm9", "Zm9v\n===", "Zm9-", "Z=g=", "Zh=="})
    CHECK_FAILS(UserError, files::from_base64(text, "model.json"), "should be base64");
}
