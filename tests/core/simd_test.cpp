// Vectors of each level that this machine supports, each from a library compiled for it (tests/simd).
#include <dlfcn.h>

#include <filesystem>

#include "core/cpu/level.h"
#include "tests/core/simd_checks.h"
#include "tests/simd/path.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::test;

namespace {

const SimdPath& path_of(cpu::Level level) {
  const std::string file = simd_library(std::string(cpu::name_of(level)));
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  INFO(file);
  REQUIRE(handle);
  const auto entry = reinterpret_cast<const SimdPath* (*)()>(dlsym(handle, "tandem_simd_path"));
  REQUIRE(entry);
  return *entry();
}

template <class Check>
void on_every_level(const Check& check) {
  for (const cpu::Level level : cpu::levels_built()) {
    if (level > *cpu::highest_level(cpu::cpu_features())) continue;
    INFO(cpu::name_of(level));
    check(path_of(level));
  }
}

}  // namespace

TEST_CASE("every level's vectors convert every 16-bit pattern and round to nearest even", "[simd]") {
  on_every_level([](const SimdPath& path) {
    check_simd(path.half);
    check_simd(path.bfloat16);
  });
}

TEST_CASE("every level's vectors are folded, and raise two to whole powers", "[simd]") {
  on_every_level([](const SimdPath& path) {
    check_folds(path);
    check_powers_of_two(path);
  });
}
