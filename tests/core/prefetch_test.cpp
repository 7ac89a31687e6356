// core/cpu/kernels/prefetch.h prefetches exactly the requested lines.
#include "core/cpu/kernels/prefetch.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <vector>

using namespace tandem;
using namespace tandem::cpu::TANDEM_LEVEL;  // the same at every level: here as at none

namespace {

constexpr std::size_t kLine = 64;

std::uintptr_t line_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address) / kLine; }

// The lines that `loops` of `turns` each ask for.
std::set<std::uintptr_t> lines_of(Prefetch requests, int loops, int turns) {
  std::set<std::uintptr_t> lines;
  for (int loop = 0; loop < loops; ++loop) {
    for (int turn = 0; turn < turns; ++turn, requests.turn()) lines.insert(line_of(requests.next()));
    requests.settle();
  }
  return lines;
}

struct Memory {
  alignas(kLine) char first[8 * kLine], between[kLine], second[24 * kLine];
};

}  // namespace

TEST_CASE("requests cover both ranges, and rest behind them", "[prefetch]") {
  static const Memory memory{};
  const Bytes first = bytes_of(memory.first, sizeof(memory.first)),
              second = bytes_of(memory.second, sizeof(memory.second));
  constexpr int kLoops = 8, kTurns = 16;
  const auto lines = lines_of(Prefetch(first, second, kLoops * kTurns), kLoops, kTurns);
  for (std::size_t at = 0; at < first.count; at += kLine) CHECK(lines.count(line_of(memory.first + at)) == 1);
  for (std::size_t at = 0; at < second.count; at += kLine)
    CHECK(lines.count(line_of(memory.second + at)) == 1);

  Prefetch requests(first, second, kLoops * kTurns);
  for (int loop = 0; loop < kLoops + 1; ++loop) {
    for (int turn = 0; turn < kTurns; ++turn) requests.turn();
    requests.settle();
  }
  const void* rest = requests.next();
  requests.turn();
  CHECK(requests.next() == rest);
  CHECK(Prefetch().next() == rest);
}

TEST_CASE("requests skip an empty range, and step a line at most", "[prefetch]") {
  static const Memory memory{};
  Prefetch requests({}, bytes_of(memory.second, sizeof(memory.second)), 4);
  CHECK(requests.next() == memory.second);
  requests.turn();
  CHECK(requests.next() == memory.second + kLine);
  CHECK(Prefetch({}, {}, 0).next() == Prefetch().next());
}

TEST_CASE("shares of a range are even and whole", "[prefetch]") {
  const std::vector<float> values(1001);
  const auto count = static_cast<Index>(values.size());
  for (const Index shares : {1, 3, 7, 1001, 5000}) {
    Shares all(bytes_of(values.data(), count), shares);
    const auto* next = reinterpret_cast<const char*>(values.data());
    std::size_t largest = 0;
    for (Index i = 0; i < shares; ++i) {
      const Bytes share = all.next();
      CHECK(share.from == next);
      next += share.count;
      largest = std::max(largest, share.count);
    }
    CHECK(next == reinterpret_cast<const char*>(values.data() + values.size()));
    CHECK(largest == (values.size() * sizeof(float) + static_cast<std::size_t>(shares) - 1) /
                         static_cast<std::size_t>(shares));
    CHECK(all.next().count == 0);
  }
  CHECK(bytes_of(values.data(), -3).count == 0);
  CHECK(Shares().next().count == 0);
}
