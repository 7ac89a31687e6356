// Numbers of shares for the loops of kernels (core/cpu/parallel.h).
#pragma once

#include <algorithm>

#include "core/cpu/parallel.h"

namespace tandem::cpu::TANDEM_LEVEL {

inline Index shares_of(int team) { return team == 1 ? 1 : kSharesOfThread * team; }

// Number of shares with `floats` sums each: at most 1 MiB of sums, at least one share per thread.
inline Index shares_of_sums(int team, Index floats) {
  constexpr Index kFloats = Index{1} << 18;
  return team == 1 ? 1 : std::clamp<Index>(kFloats / floats / team, 1, kSharesOfThread) * team;
}

}  // namespace tandem::cpu::TANDEM_LEVEL
