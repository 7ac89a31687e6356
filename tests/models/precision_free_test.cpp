// Layers, models and data do not mention 16-bit types: only apply decides precision.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("layers, models and data sets name no 16-bit type", "[models]") {
  const std::regex named(R"(DType::(f16|bf16)|\b(Half|BFloat16|is_16bit)\b|amp::)");
  REQUIRE(std::regex_search(std::string("x.dtype() == DType::bf16"), named));
  int files = 0;
  for (const char* folder : {"nn", "models", "data"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path(folder))) {
      const auto extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h") continue;
      ++files;
      std::ifstream file(entry.path());
      std::string line;
      for (int number = 1; std::getline(file, line); ++number) {
        if (std::regex_search(line, named))
          FAIL_CHECK(entry.path().string() << ":" << number << ": " << line);
      }
    }
  }
  CHECK(files > 50);
}
