#include "files/json_fields.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace tandem::files;

TEST_CASE("a field of another type is as good as none", "[json]") {
  const auto json = nlohmann::json::parse(
      R"({"number": 2.5, "integer": 7, "text": "seven", "yes": true, "null": null, "list": [1]})");
  CHECK(number_in(json, "number") == 2.5);
  CHECK(number_in(json, "integer") == 7.0);
  CHECK(integer_in(json, "integer") == 7);
  CHECK(text_in(json, "text") == "seven");
  CHECK(boolean_in(json, "yes"));
  for (const char* const key : {"text", "yes", "null", "list", "absent"}) {
    CAPTURE(key);
    CHECK(std::isnan(number_in(json, key)));
    CHECK(number_in(json, key, 3.0) == 3.0);
    CHECK(integer_in(json, key, 3) == 3);
  }
  CHECK(integer_in(json, "number", 3) == 3);
  for (const char* const key : {"number", "yes", "null", "list", "absent"}) CHECK(text_in(json, key).empty());
  for (const char* const key : {"number", "text", "null", "list", "absent"})
    CHECK(boolean_in(json, key, true));
}
