// Dynamic scheduling of a kernel's work in several shares per thread. A thread first takes its own shares,
// then unstarted shares of others, so that a preempted thread does not delay the team. Results must not
// depend on which thread computes a share.
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

// Number of shares with `floats` sums each: at most 1 MiB of sums, at least one share per thread.
inline Index shares_of_sums(int team, Index floats) {
  constexpr Index kFloats = Index{1} << 18;
  return team == 1 ? 1 : std::clamp<Index>(kFloats / floats / team, 1, kSharesOfThread) * team;
}

// Each thread that has work calls begin(thread) once and calls the returned function with each of its shares
// of [0, shares). Rethrows the exception of a thread.
template <class Begin>
void over_shares(int team, Index shares, Begin&& begin) {
  constexpr Index kLine = 8;  // one cache line per thread's counter
  const Tensor memory = workspace<std::int64_t>({team * kLine});
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
