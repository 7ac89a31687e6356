// Sums over ranks that share memory, with a thread per rank.
#include "parallel/host/host_sums.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include "core/convert.h"
#include "core/error.h"

using namespace tandem;
using namespace tandem::parallel;

namespace {

template <class T>
T value(int rank, std::size_t i) {
  return convert<T>(
      static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104729) % 10007) / 997.0f - 5.0f);
}

// Ranks one after the other, in f32, rounded once.
template <class T>
T wanted(int ranks, std::size_t i) {
  float sum = convert<float>(value<T>(0, i));
  for (int rank = 1; rank < ranks; ++rank) sum += convert<float>(value<T>(rank, i));
  return convert<T>(sum);
}

// Threads that run `work(sums, rank)`, each with the memory mapped for itself.
template <class Work>
void by_threads(int ranks, Work&& work) {
  auto first = std::make_unique<SharedMemory>(HostSums::bytes_for(ranks));
  std::vector<std::unique_ptr<SharedMemory>> memories;
  for (int rank = 1; rank < ranks; ++rank) memories.push_back(std::make_unique<SharedMemory>(first->place()));
  memories.insert(memories.begin(), std::move(first));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      HostSums sums(rank, ranks, std::move(memories[static_cast<std::size_t>(rank)]));
      work(sums, rank);
    });
  for (std::thread& thread : threads) thread.join();
}

void finish(HostSums& sums, std::uint64_t ticket) {
  while (!sums.ended(ticket)) {
    sums.advance();
    std::this_thread::yield();
  }
}

template <class T>
void check_sums(int ranks) {
  constexpr std::size_t kChunk = HostSums::kChunkBytes / sizeof(T),
                        kSmall = HostSums::kSmallBytes / sizeof(T);
  const std::vector<std::size_t> lengths{
      1,          2,          63,     65,         kSmall - 1,     kSmall,
      kSmall + 1, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk + 7, 9 * kChunk + kSmall + 5};
  std::vector<std::vector<std::vector<T>>> results(static_cast<std::size_t>(ranks));
  by_threads(ranks, [&](HostSums& sums, int rank) {
    auto& own = results[static_cast<std::size_t>(rank)];
    for (const std::size_t length : lengths) {
      auto& data = own.emplace_back(length);
      for (std::size_t i = 0; i < length; ++i) data[i] = value<T>(rank, i);
    }
    // All on their way at once, and looked after by chance.
    std::vector<std::uint64_t> tickets;
    for (auto& data : own) {
      tickets.push_back(sums.begin({data.data(), data.size(), dtype_of<T>()}));
      if (rank % 2 == 0) std::this_thread::yield();
    }
    finish(sums, tickets.back());
    for (const std::uint64_t ticket : tickets)
      if (!sums.ended(ticket)) std::abort();
  });
  for (std::size_t l = 0; l < lengths.size(); ++l) {
    std::vector<T> sums(lengths[l]);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = wanted<T>(ranks, i);
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      INFO(ranks << " ranks, rank " << rank << ", " << lengths[l] << " elements");
      CHECK(std::memcmp(sums.data(), results[rank][l].data(), sums.size() * sizeof(T)) == 0);
    }
  }
}

}  // namespace

TEST_CASE("sums in shared memory are those of the ranks in their order, in f32", "[parallel]") {
  for (const int ranks : {2, 3, 4, 8}) {
    check_sums<float>(ranks);
    check_sums<BFloat16>(ranks);
    check_sums<Half>(ranks);
  }
}

TEST_CASE("a sum waits for the rank that has not begun it, and for no other", "[parallel]") {
  auto first = std::make_unique<SharedMemory>(HostSums::bytes_for(2));
  HostSums one(1, 2, std::make_unique<SharedMemory>(first->place()));
  HostSums zero(0, 2, std::move(first));
  std::vector<float> small(3, 1), large(10 * HostSums::kChunkBytes / 4, 1);
  std::vector<float> small_there = small, large_there = large;
  const auto at = [](std::vector<float>& data) { return Elements(data); };
  const std::uint64_t a = zero.begin(at(small)), b = zero.begin(at(large));
  zero.advance();
  CHECK_FALSE(zero.ended(a));
  const std::uint64_t there = one.begin(at(small_there));
  CHECK(one.ended(there));  // the other one's values were in already
  zero.advance();
  CHECK(zero.ended(a));
  CHECK_FALSE(zero.ended(b));
  CHECK(small[2] == 2);
  const std::uint64_t later = one.begin(at(large_there));
  while (!zero.ended(b) || !one.ended(later)) {
    zero.advance();
    one.advance();
  }
  CHECK(large == std::vector<float>(large.size(), 2));
  CHECK(large_there == large);
}

TEST_CASE("a NaN of any rank survives sums in shared memory", "[parallel]") {
  std::vector<std::vector<float>> data(3, std::vector<float>(5000, 1));
  data[1][4711] = std::numeric_limits<float>::quiet_NaN();
  by_threads(3, [&](HostSums& sums, int rank) {
    finish(sums, sums.begin(Elements(data[static_cast<std::size_t>(rank)])));
  });
  for (const auto& sum : data) {
    CHECK(std::isnan(sum[4711]));
    CHECK(sum[4710] == 3);
  }
}

TEST_CASE("shared memory is found by its place, and nothing else is taken for it", "[parallel]") {
  constexpr std::size_t kBytes = 1 << 16;
  SharedMemory memory(kBytes);
  memory.data()[100] = std::byte{7};
  {
    const SharedMemory again(memory.place());
    CHECK(again.data()[100] == std::byte{7});
    CHECK(again.data()[kBytes - 1] == std::byte{0});
  }
  SharedMemory::Place other = memory.place();
  other.id += 2;
  CHECK_THROWS_AS(SharedMemory(other), VendorError);
  other = memory.place();
  other.bytes += 4096;
  CHECK_THROWS_AS(SharedMemory(other), VendorError);
  memory.close_file();
  CHECK_THROWS_AS(SharedMemory(memory.place()), VendorError);
}
