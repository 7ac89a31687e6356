// A program that links this file (CMake: tandem::short_spin) has OpenMP's threads spin for kSpinMicroseconds,
// then sleep, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.
//
// GNU's libgomp takes the length from GOMP_SPINCOUNT, once, in its constructor, which runs before every line
// of the program but those of .preinit_array. Then the C library has not yet made the vector of the process's
// environment its own (glibc: elf/dl-init.c, csu/init-first.c): setenv would be forgotten, and the vector
// cannot grow. So the entry of a variable that no library asks for in its constructor is lent to
// GOMP_SPINCOUNT until the constructors of the libraries are through. Nothing of it is left then, neither for
// the program nor for its children. Where that does not work (another C library, an environment without such
// a variable), teams wait as OpenMP does by default, and waiting() says so.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/cpu/waiting.h"

#if defined(__GLIBC__) && !defined(__clang__)  // Clang has an OpenMP of its own, with other settings

namespace {

// In the order in which they are asked to lend.
constexpr const char* kLenders[] = {"_",       "OLDPWD", "SHLVL", "LS_COLORS", "TERM", "PWD",
                                    "LOGNAME", "USER",   "SHELL", "HOSTNAME",  "HOME", "PATH"};
constexpr const char* kSettings[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"};
// libgomp's default is 300000 turns; fewer than 100 it takes where a team has more threads than there are
// CPUs.
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

// A turn of libgomp's waiting loop: config/linux/wait.h, do_spin(). The instruction takes 9 to 140 cycles.
double turn_ns() {
  constexpr int kTurns = 512;
  static int address = 0;
  double least = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {  // the least: one may be interrupted
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
    char* const end = setting + sizeof setting - 1;  // which stays 0
    std::to_chars(setting + std::strlen(setting), end, count);
    lent = *lender;
    *lender = setting;
    return;
  }
}

// Before every other constructor of the program.
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
