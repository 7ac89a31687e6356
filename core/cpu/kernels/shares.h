// Shares of a kernel's work, as many for each thread of the team. Each thread of the team begins with its
// own, and then takes what others have not begun: one that has lost its core to another process leaves its
// shares to those that have theirs. Which thread works on a share must not matter to results.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "core/cpu/kernels/blocks.h"

namespace tandem::cpu::TANDEM_LEVEL {

inline constexpr Index kSharesOfThread = 4;

inline Index shares_of(int team) { return team == 1 ? 1 : kSharesOfThread * team; }

// The same where each share has `floats` sums of its own: as many as 1 MiB holds, but one for each thread.
inline Index shares_of_sums(int team, Index floats) {
  constexpr Index kFloats = Index{1} << 18;
  return team == 1 ? 1 : std::clamp<Index>(kFloats / floats / team, 1, kSharesOfThread) * team;
}

// begin(thread) is called once in each thread that has work, and returns what is then called with each of its
// shares of [0, shares). Throws what one of them threw.
template <class Begin>
void over_shares(int team, Index shares, Begin&& begin) {
  constexpr Index kLine = 8;  // a cache line for each thread's count
  const Tensor memory = Tensor::empty({team * kLine}, {.dtype = DType::i64, .kind = MemoryKind::workspace});
  auto* const begun = memory.data<std::int64_t>();
  std::fill_n(begun, team * kLine, 0);
  std::exception_ptr failure;
#pragma omp parallel num_threads(team)
  {
    const int me = omp_get_thread_num();
    const auto work = begin(me);
    for (int i = 0; i < team; ++i) {
      const int owner = (me + i) % team;
      const Range those = part_of(shares, owner, team);
      std::atomic_ref<std::int64_t> next(begun[owner * kLine]);
      for (Index k; (k = next.fetch_add(1, std::memory_order_relaxed)) < those.count();) {
        try {
          work(those.first + k);
        } catch (...) {
#pragma omp critical(tandem_shares)
          failure = std::current_exception();
        }
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
