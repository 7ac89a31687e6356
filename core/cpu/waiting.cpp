#include "core/cpu/waiting.h"

#include <fmt/core.h>
#include <strings.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

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

std::chrono::nanoseconds spin_time() {
  static const std::chrono::nanoseconds time = [] {
    const auto is = [](const char* name, std::string_view value) {
      const char* const given = std::getenv(name);
      return given && ::strcasecmp(given, value.data()) == 0;
    };
    if (is("OMP_WAIT_POLICY", "passive") || is("GOMP_SPINCOUNT", "0")) return std::chrono::nanoseconds(0);
    if (is("OMP_WAIT_POLICY", "active")) return std::chrono::nanoseconds(std::chrono::minutes(1));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(1e3 * kSpinMicroseconds));
  }();
  return time;
}

}  // namespace tandem::cpu
