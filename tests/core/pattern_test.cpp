#include "core/pattern.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using namespace tandem;
using Catch::Contains;

TEST_CASE("patterns are searched as regular expressions", "[pattern]") {
  CHECK(std::regex_search(std::string("layer3.0.bn1"), compile_pattern("^layer[34].*bn\\d$")));
  CHECK_FALSE(std::regex_search(std::string("fc"), compile_pattern("^layer")));
  CHECK_THROWS_WITH(compile_pattern("("), Contains("\"(\" is not a regular expression"));
  CHECK_THROWS_AS(compile_pattern("(a)\\1"), UserError);  // a back reference
}

TEST_CASE("patterns need little time and stack", "[pattern]") {
  CHECK_FALSE(std::regex_search(std::string(200, 'a'), compile_pattern("(a|a)*b")));
  CHECK_FALSE(std::regex_search(std::string(200, 'a'), compile_pattern("((a*)*)*b")));
  CHECK_THROWS_WITH(compile_pattern(std::string(1 << 20, 'a')), Contains("at most 256"));
  CHECK_THROWS_WITH(compile_pattern(std::string(100'000, '(')), Contains("at most 256"));
  CHECK_THROWS_WITH(compile_pattern("((a{9}){9}){9}"), Contains("more than 32"));
  CHECK_THROWS_WITH(compile_pattern("a{99999999999999999999}"), Contains("more than 32"));
  // The largest that are taken.
  CHECK_NOTHROW(compile_pattern(std::string(128, '(') + std::string(128, ')')));
  std::string optional = "(";
  while (optional.size() < 250) optional += "a?";
  const std::regex largest = compile_pattern(optional + "){32}");
  CHECK(std::regex_search(std::string(200, 'b'), largest));
}
