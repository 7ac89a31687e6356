// The wait policy of threads is set before the program's code runs; the environment is then restored.
#include "core/cpu/waiting.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

using namespace tandem;

namespace {

// As the process was started.
std::vector<std::string> given_environment() {
  std::ifstream file("/proc/self/environ", std::ios::binary);
  std::vector<std::string> entries;
  for (std::string entry; std::getline(file, entry, '\0');) entries.push_back(entry);
  return entries;
}

bool sets(const std::vector<std::string>& environment, const std::string& name) {
  return std::ranges::any_of(environment, [&](const auto& entry) { return entry.starts_with(name + "="); });
}

}  // namespace

TEST_CASE("the environment is restored after the wait policy is set", "[waiting]") {
  std::vector<std::string> found;
  for (char** entry = environ; *entry; ++entry) found.emplace_back(*entry);
  CHECK(found == given_environment());
}

TEST_CASE("threads spin briefly unless the environment says otherwise", "[waiting]") {
  const auto given = given_environment();
  const char* const policy = std::getenv("OMP_WAIT_POLICY");
  const char* const count = std::getenv("GOMP_SPINCOUNT");
  INFO(cpu::waiting());
  if (count)
    CHECK(cpu::waiting() == std::string("GOMP_SPINCOUNT=") + count);
  else if (policy)
    CHECK(cpu::waiting() == std::string("OMP_WAIT_POLICY=") + policy);
#if defined(__GLIBC__) && !defined(__clang__)
  else if (sets(given, "PATH"))
    CHECK(cpu::waiting() == "spin 50 us, then sleep");
#endif
  else
    CHECK(cpu::waiting() == "as OpenMP does by default");
}
