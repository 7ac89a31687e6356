#include "core/cpu/waiting.h"

#include <fmt/core.h>

#include <cstdlib>

#include "core/printable.h"

namespace tandem::cpu {

namespace {

bool brief = false;

}  // namespace

void spins_briefly() { brief = true; }

std::string waiting() {
  if (brief) return fmt::format("spin {} us, then sleep", kSpinMicroseconds);
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"})
    if (const char* value = std::getenv(name)) return printable(fmt::format("{}={}", name, value));
  return "as OpenMP does by default";
}

}  // namespace tandem::cpu
