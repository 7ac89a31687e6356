// Search for the files that come with Tandem.
#include "data/resources.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/paths.h"

using namespace tandem;

TEST_CASE("an installed program takes its own files before those of its sources", "[registry]") {
  namespace fs = std::filesystem;
  const auto places = datasets::shipped_places("digits");
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const auto own =
      std::ranges::find(places, program.parent_path().parent_path() / "share" / "tandem" / "data" / "digits");
  const auto source = std::ranges::find(places, fs::path(test::source_path("data/digits")));
  REQUIRE(own != places.end());
  REQUIRE(source != places.end());
  CHECK(own < source);
}
