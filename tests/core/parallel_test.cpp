// Parallel loops: every share once, by whichever thread is free.
#include "core/cpu/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/support/threads.h"

using namespace tandem;
using namespace std::chrono_literals;

namespace {

// How often each share was taken.
std::vector<int> taken(int threads, Index count) {
  std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
  cpu::parallel_shares(threads, count, [&](Index share) { ++times[static_cast<std::size_t>(share)]; });
  return {times.begin(), times.end()};
}

// Waits until the condition holds. Returns whether it did within a time that no scheduler needs.
template <class Condition>
bool holds(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("each share is taken once", "[parallel]") {
  for (const int threads : {1, 2, 3, 8})
    for (const Index count : {0, 1, 2, 3, 7, 8, 100})
      CHECK(taken(threads, count) == std::vector<int>(static_cast<std::size_t>(count), 1));
  for (int loop = 0; loop < 20000; ++loop) {
    const int threads = 2 + loop % 3;
    if (taken(threads, threads) != std::vector<int>(static_cast<std::size_t>(threads), 1)) {
      FAIL("loop " << loop);
    }
  }
}

TEST_CASE("ranges cover all items, in order of the shares", "[parallel]") {
  const test::ThreadCount three(3);
  for (const Index count : {1, 5, 12, 13, 1000}) {
    std::vector<Index> items(static_cast<std::size_t>(count), -1);
    cpu::parallel_for(true, count, [&](Index i) { items[static_cast<std::size_t>(i)] = i; });
    std::vector<Index> expected(items.size());
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(items == expected);
    std::atomic<int> ranges = 0;
    cpu::parallel_ranges(false, count, [&](cpu::Range range) {
      ++ranges;
      CHECK((range.first == 0 && range.last == count));
    });
    CHECK(ranges == 1);
  }
}

TEST_CASE("threads that are free take the shares of one that is not", "[parallel]") {
  constexpr Index kCount = 40;
  for (const int threads : {2, 4}) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<Index> done = 0;
      std::atomic<bool> blocked = false, in_time = true;
      // The first thread that begins waits for all other shares, some of which are its own.
      cpu::parallel_shares(threads, kCount, [&](Index) {
        if (!blocked.exchange(true)) in_time = holds([&] { return done == kCount - 1; });
        ++done;
      });
      CHECK(in_time);
      CHECK(done == kCount);
    }
  }
}

TEST_CASE("threads at work have different numbers", "[parallel]") {
  std::vector<std::atomic<int>> at_work(4);
  std::atomic<int> twice = 0;
  for (int loop = 0; loop < 200; ++loop) {
    cpu::over_shares(4, 16, [&](int thread) {
      return [&, thread](Index) {
        auto& mine = at_work[static_cast<std::size_t>(thread)];
        if (mine.fetch_add(1) != 0) ++twice;
        std::this_thread::yield();
        --mine;
      };
    });
  }
  CHECK(twice == 0);
}

TEST_CASE("a loop within a loop runs on its thread", "[parallel]") {
  const test::ThreadCount two(2);
  std::atomic<int> wrong = 0;
  cpu::parallel_shares(2, 8, [&](Index) {
    const auto self = std::this_thread::get_id();
    if (cpu::threads() != 1) ++wrong;
    cpu::parallel_shares(2, 8, [&](Index) { wrong += std::this_thread::get_id() != self; });
    if (!cpu::is_in_loop()) ++wrong;
  });
  CHECK(wrong == 0);
  CHECK(cpu::threads() == 2);
  CHECK_FALSE(cpu::is_in_loop());
}

TEST_CASE("the first exception of a share reaches the caller", "[parallel]") {
  for (const int threads : {1, 3}) {
    for (const Index bad : {0, 50, 99}) {
      std::atomic<int> begun = 0;
      CHECK_THROWS_WITH(cpu::parallel_shares(threads, 100,
                                             [&](Index share) {
                                               ++begun;
                                               if (share == bad) throw std::runtime_error("share fails");
                                             }),
                        "share fails");
      CHECK(begun <= 100);
      CHECK(taken(threads, 9) == std::vector<int>(9, 1));  // the team still works
    }
  }
}

TEST_CASE("calling threads have helpers of their own", "[parallel]") {
  std::atomic<int> wrong = 0;
  const auto call = [&] {
    for (int loop = 0; loop < 500; ++loop) wrong += taken(3, 12) != std::vector<int>(12, 1);
  };
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 4; ++caller) callers.emplace_back(call);
  }
  CHECK(wrong == 0);
}

TEST_CASE("sums of shares have the same bits beside busy threads", "[parallel]") {
  constexpr Index kCount = 64;
  const auto total = [] {
    std::vector<float> sums(kCount);
    cpu::parallel_shares(2, kCount, [&](Index share) {
      float sum = 0.0f;
      for (int i = 1; i <= 2000; ++i) sum += 1.0f / static_cast<float>(share + i);
      sums[static_cast<std::size_t>(share)] = sum;
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0f);
  };
  const float quiet = total();
  std::atomic<bool> stop = false;
  std::vector<std::jthread> busy;
  for (int loop = 0; loop < 3; ++loop)
    busy.emplace_back([&] {
      while (!stop) {
      }
    });
  int different = 0;
  for (int loop = 0; loop < 300; ++loop) different += total() != quiet;
  stop = true;
  CHECK(different == 0);
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a forked process computes without helpers", "[parallel]") {
  CHECK(taken(2, 10) == std::vector<int>(10, 1));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(taken(2, 10) == std::vector<int>(10, 1) ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
#endif
