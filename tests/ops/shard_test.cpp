#include "tests/ops/shard.h"

#include <catch2/catch.hpp>

#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("every row is in one shard", "[ops]") {
  for (std::size_t of = 1; of <= 9; ++of) {
    std::vector<int> seen(20);
    for (std::size_t i = 1; i <= of; ++i) {
      const Shard shard(fmt::format("{}/{}", i, of));
      for (std::size_t row = 0; row < seen.size(); ++row) seen[row] += shard.has(row) ? 1 : 0;
    }
    CHECK(seen == std::vector<int>(seen.size(), 1));
  }
  CHECK(Shard("2/3").has(1));
}

TEST_CASE("a shard that there is not is told with the ones there are", "[ops]") {
  for (const char* text : {"", "3", "0/4", "5/4", "1/0", "-1/4", "1/4 ", "a/4", "1/4/2", "/4", "1/"})
    CHECK_FAILS(UserError, Shard(text), "expected i/n with i from 1 to n");
}
