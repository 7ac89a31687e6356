// Check that the CPU supports x86-64-v2, run first in this library: prints one line and exits, instead of
// crashing with an illegal instruction later. Compiled for any x86-64, without the C++ library.
#if defined(__x86_64__)

#include <cpuid.h>
#include <unistd.h>

#include <cstring>

#include "core/exit_codes.h"

namespace {

struct Feature {
  const char* name;
  unsigned bit;  // of ecx, leaf 1
};
constexpr Feature kNeeded[] = {
    {" ssse3", 9}, {" cx16", 13}, {" sse4_1", 19}, {" sse4_2", 20}, {" popcnt", 23}};

void say(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Runs before the constructors of static objects.
__attribute__((constructor(101))) void require_baseline() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  bool complete = true;
  for (const Feature& feature : kNeeded) complete = complete && (ecx >> feature.bit & 1u) != 0;
  if (complete) return;
  say("tandem: [cpu] this CPU lacks");
  for (const Feature& feature : kNeeded)
    if ((ecx >> feature.bit & 1u) == 0) say(feature.name);
  say("; Tandem needs x86-64-v2 or better\n");
  ::_exit(tandem::kExitUsage);
}

}  // namespace

#endif
