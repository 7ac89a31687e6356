// Agreement of ranks on the failure of one of them.
#include "parallel/agreement.h"

#include <array>
#include <catch2/catch.hpp>
#include <new>

#include "parallel/one_process.h"

using namespace tandem;
using namespace tandem::parallel;

TEST_CASE("the ending of a piece of work says what was thrown and whose mistake it was", "[agreement]") {
  CHECK_FALSE(ending_of([] {}).failed);
  const Ending mistake = ending_of([] { throw UserError("key", "is wrong"); });
  CHECK(mistake.failed);
  CHECK(mistake.users_mistake);
  CHECK(mistake.message == "[key] is wrong");
  const Ending failure = ending_of([] { throw VendorError("disk", "is full"); });
  CHECK(failure.failed);
  CHECK_FALSE(failure.users_mistake);
  CHECK(ending_of([] { throw std::bad_alloc(); }).failed);
}

TEST_CASE("ranks that all end well agree on nothing", "[agreement]") {
  CHECK_FALSE(error_of(std::array<Ending, 3>{}));
}

TEST_CASE("the first rank that failed is named, unless all did with the same words", "[agreement]") {
  std::array<Ending, 3> endings{{{}, {true, true, "no file"}, {true, false, "no memory"}}};
  const auto of_one = error_of(endings);
  REQUIRE(of_one);
  CHECK(std::string(of_one->what()) == "rank 1 of 3: no file");
  CHECK(of_one->users_mistake());
  endings.fill({true, true, "no file"});
  const auto of_all = error_of(endings);
  REQUIRE(of_all);
  CHECK(std::string(of_all->what()) == "no file");
  endings[2].message = "no such file";
  CHECK(std::string(error_of(endings)->what()) == "rank 0 of 3: no file");
}

TEST_CASE("a process that is alone throws what its work throws", "[agreement]") {
  OneProcess alone;
  CHECK(together(alone, 1.0, [] { return 7; }) == 7);
  CHECK_THROWS_AS(together(alone, 1.0, [] { throw UserError("", "no"); }), UserError);
}
