// Linking this file (CMake: tandem::short_spin) makes OpenMP's threads, which compute oneDNN's convolutions of few
// images, spin for kSpinMicroseconds and then sleep, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.
//
// GNU's libgomp reads GOMP_SPINCOUNT once in its constructor, which runs before all code of the program
// except .preinit_array. At that point the C library does not own the environment vector yet (glibc:
// elf/dl-init.c, csu/init-first.c): setenv would have no effect, and the vector cannot grow. Therefore
// GOMP_SPINCOUNT temporarily replaces the entry of a variable that no library reads in its constructor, until
// all library constructors have run. Afterwards no trace remains for the program or its children. If this is
// impossible (another C library, no such variable), OpenMP's default applies, and waiting() says so.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/cpu/waiting.h"

#if defined(__GLIBC__) && !defined(__clang__)  // Clang has its own OpenMP, with other settings

namespace {

// Variables whose entry may be replaced, in order of preference.
constexpr const char* kLenders[] = {"_",       "OLDPWD", "SHLVL", "LS_COLORS", "TERM", "PWD",
                                    "LOGNAME", "USER",   "SHELL", "HOSTNAME",  "HOME", "PATH"};
constexpr const char* kSettings[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"};
// libgomp's default is 300000 iterations; it uses fewer than 100 if a team has more threads than CPUs.
constexpr long kLeastTurns = 100, kMostTurns = 300000;

char setting[64] = "GOMP_SPINCOUNT=";
char* lent = nullptr;

char** entry(char** environment, const char* name) {
  const std::size_t length = std::strlen(name);
  for (; *environment; ++environment)
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return environment;
  return nullptr;
}

double now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// Duration of a spin iteration of libgomp (config/linux/wait.h, do_spin()), an instruction of 9 to 140
// cycles.
double turn_ns() {
  constexpr int kTurns = 512;
  static int address = 0;
  double least = 1e9;
  for (int attempt = 0; attempt < 3;
       ++attempt) {  // minimum of several attempts, since one may be interrupted
    const double start = now_ns();
    for (int i = 0; i < kTurns && __atomic_load_n(&address, __ATOMIC_RELAXED) == 0; ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#else
      asm volatile("" ::: "memory");
#endif
    }
    least = std::min(least, (now_ns() - start) / kTurns);
  }
  return std::max(least, 1e-3);
}

void lend(int, char**, char** environment) {
  for (const char* name : kSettings)
    if (entry(environment, name)) return;
  for (const char* name : kLenders) {
    char** const lender = entry(environment, name);
    if (!lender) continue;
    const double turns = tandem::cpu::kSpinMicroseconds * 1e3 / turn_ns();
    const long count = std::clamp(static_cast<long>(turns), kLeastTurns, kMostTurns);
    char* const end = setting + sizeof setting - 1;  // the terminating 0
    std::to_chars(setting + std::strlen(setting), end, count);
    lent = *lender;
    *lender = setting;
    return;
  }
}

// Restores the entry before every other constructor of the program.
__attribute__((constructor(101))) void give_back() {
  if (!lent || !environ) return;
  for (char** at = environ; *at; ++at) {
    if (*at != setting) continue;
    *at = lent;
    tandem::cpu::spins_briefly();
    return;
  }
}

__attribute__((section(".preinit_array"), used)) void (*const kAtStart)(int, char**, char**) = lend;

}  // namespace

#endif
