// Parallel loops over shares of work.
//
// The calling thread and its helper threads each take the next unstarted share until none is left, so a
// thread without a core delays nobody: the others do its work. The caller returns when the shares are done. A
// helper that has not begun is not waited for. Work and results must depend on the number of shares only, not
// on the thread that computes one: results then have the same bits under any load.
//
// Each calling thread has helpers of its own, started at its first loop. A waiting thread spins for 50 µs,
// then sleeps. While other processes use the same cores, helpers yield their core between shares instead of
// being preempted within one, and, if the team has a thread for each core, threads stay on theirs. Loops
// within a loop run on the calling thread. The first exception of a share is rethrown to the caller; shares
// that have not begun are then skipped.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include "core/cpu/cpu_features.h"
#include "core/shape.h"

namespace tandem::cpu {

// How threads wait: "spin 50 us, then sleep"; or OMP_WAIT_POLICY, if it is "passive" (sleep) or "active"
// (spin).
std::string waiting();

// Minimum stack size of a thread in bytes, several times the need of the deepest kernel. A loop's first call
// throws UserError if a thread has less.
inline constexpr std::size_t kLeastStack = std::size_t{512} << 10;

// Shares of one loop, as one of its threads takes them.
class Shares {
 public:
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;
  // Takes a share: `share` is in [0, count of the loop). Returns false if none is left for this thread.
  bool next(Index& share);
  // In [0, threads). Two threads that work at the same time have different numbers.
  int thread() const { return thread_; }

 protected:
  Shares() = default;
  ~Shares() = default;
  int thread_ = 0;
};

namespace detail {
using ShareBody = void (*)(const void* body, Shares& shares);
void run_shares(int threads, Index count, ShareBody call, const void* body);
}  // namespace detail

// Whether the calling thread works on a share of a loop with several threads.
bool is_in_loop();

// Calls body(Shares&) on at most `threads` threads, which take the shares of [0, count). A thread may call it
// more than once, or not at all.
template <class Body>
void with_shares(int threads, Index count, const Body& body) {
  detail::run_shares(
      threads, count, [](const void* object, Shares& shares) { (*static_cast<const Body*>(object))(shares); },
      &body);
}

// A thread calls begin(thread) before its first share, and the function that this returns with each of its
// shares: buffers of a thread belong there.
template <class Begin>
void over_shares(int threads, Index count, const Begin& begin) {
  with_shares(threads, count, [&](Shares& shares) {
    Index share;
    if (!shares.next(share)) return;
    auto work = begin(shares.thread());
    do work(share);
    while (shares.next(share));
  });
}

// Calls work(share) with each share of [0, count) on at most `threads` threads.
template <class Work>
void parallel_shares(int threads, Index count, const Work& work) {
  with_shares(threads, count, [&](Shares& shares) {
    for (Index share; shares.next(share);) work(share);
  });
}

// The half-open range of `count` items for part `part` of `parts`.
struct Range {
  Index first, last;
  Index count() const { return last - first; }
};
inline Range part_of(Index count, Index part, Index parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

// Shares of each thread in loops over many items. With several, threads end at about the same time.
inline constexpr Index kSharesOfThread = 4;

// Calls body(range) for ranges that together are [0, count): on this thread unless `parallel`, else in
// shares.
template <class Body>
void parallel_ranges(bool parallel, Index count, const Body& body) {
  const int team = parallel && count > 1 ? threads() : 1;
  if (team == 1 && count > 0) return body(Range{0, count});
  const Index most = kSharesOfThread * team, shares = count < most ? count : most;
  with_shares(team, shares, [&](Shares& own) {
    for (Index share; own.next(share);) body(part_of(count, share, shares));
  });
}

// Calls each(item) for each item of [0, count).
template <std::integral I, class Each>
void parallel_for(bool parallel, I count, const Each& each) {
  parallel_ranges(parallel, static_cast<Index>(count), [&](Range range) {
    for (Index i = range.first; i < range.last; ++i) each(static_cast<I>(i));
  });
}

// Calls each(i, j) for each pair of [0, rows) × [0, columns).
template <class Each>
void parallel_for(bool parallel, Index rows, Index columns, const Each& each) {
  parallel_for(parallel, rows * columns, [&](Index i) { each(i / columns, i % columns); });
}

}  // namespace tandem::cpu
