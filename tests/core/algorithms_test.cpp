// The table of chosen algorithms, as text and as a file's name.
#include "core/algorithms.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using namespace tandem;
using Catch::Matchers::Contains;

namespace {

AlgorithmTable table() {
  return {.library = "cuDNN 9.19.0",
          .device = "NVIDIA H100 80GB HBM3, 132 multiprocessors",
          .choices = {{"conv2d: f32 → f32", {.name = "f32: eng65_k2=5_k13=1", .milliseconds = {}}},
                      {"matmul: 1 x f16 [8,8]·[8,8] -> f32",
                       {.name = "cuBLASLt 13.1.0: algorithm 66 tile 20",
                        .milliseconds = {{"first", 1.25f}, {"chosen", 0.03125f}}}}}};
}

}  // namespace

TEST_CASE("a table of algorithms comes back as it was written", "[algorithms]") {
  const std::string text = to_text(table());
  CHECK_THAT(text, Contains("plans chosen by cuDNN 9.19.0 on NVIDIA H100 80GB HBM3, 132 multiprocessors\n") &&
                       Contains("tile 20\tfirst 1.25 ms, chosen 0.03125 ms\n"));
  CHECK(read_algorithms(text) == table());
  CHECK(read_algorithms(text).fits(table()));
  AlgorithmTable library = table(), device = table();
  library.library = "cuDNN 9.20.0";
  CHECK_FALSE(library.fits(table()));
  device.device = "NVIDIA H200, 132 multiprocessors";
  CHECK_FALSE(device.fits(table()));
}

TEST_CASE("a table's file is called by its GPU and its version of cuDNN", "[algorithms]") {
  CHECK(file_name_of(table()) == "h100-80gb-hbm3-9.19.0.txt");
  CHECK(file_prefix_of(table()) == "h100-80gb-hbm3-");
  CHECK(file_name_of(
            {.library = "cuDNN 9.20.1", .device = "NVIDIA H200, 132 multiprocessors", .choices = {}}) ==
        "h200-9.20.1.txt");
}

TEST_CASE("text that is no table is refused, and why is said", "[algorithms]") {
  for (const char* text : {"", "{}\n", "plans chosen by nobody\n"})
    CHECK_THROWS_WITH(read_algorithms(text), Contains("the table must start with"));
  const std::string title = "plans chosen by x on y\n";
  CHECK_THROWS_WITH(read_algorithms(title + "no tab here\n"), Contains("no tab here"));
  for (const char* times : {"a", "a b ms", "a 1", "a 1 s", "a 1 ms b 2 ms"}) {
    INFO(times);
    CHECK_THROWS_AS(read_algorithms(title + "what\tname\t" + times + "\n"), UserError);
  }
}
