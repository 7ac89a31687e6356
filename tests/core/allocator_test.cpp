// The caching allocator over a source of memory that counts, and refuses on demand.
#include "core/allocator.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "core/random.h"
#include "core/storage.h"
#include "tests/support/errors.h"

using namespace tandem;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct SourceLog {
  std::map<void*, std::size_t> segments;
  int acquired = 0;
  int refuse_from = 1 << 30;  // the first request that is refused, counted from 0
  int refuse_until = 1 << 30;
};

class FakeSource final : public MemorySource {
 public:
  explicit FakeSource(SourceLog& log) : log_(log) {}
  void* acquire(std::size_t bytes) override {
    const int request = log_.acquired++;
    if (request >= log_.refuse_from && request < log_.refuse_until) return nullptr;
    void* segment = std::aligned_alloc(4096, bytes);
    log_.segments.emplace(segment, bytes);
    return segment;
  }
  void release(void* segment, std::size_t bytes) override {
    // Size and address must be those of acquire.
    if (log_.segments.at(segment) != bytes) throw InternalError("test", "released with another size");
    log_.segments.erase(segment);
    std::free(segment);
  }
  std::string_view name() const override { return "fake"; }

 private:
  SourceLog& log_;
};

struct Fixture {
  SourceLog log;
  CachingAllocator allocator{std::make_unique<FakeSource>(log)};
  void* take(std::size_t bytes, MemoryKind kind = MemoryKind::activations) {
    return allocator.allocate(bytes, kind);
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "blocks are aligned and do not overlap", "[allocator]") {
  std::map<std::byte*, std::size_t> blocks;
  for (const std::size_t bytes :
       {1ul, 63ul, 64ul, 65ul, 4095ul, 100000ul, kMiB - 1, kMiB, kMiB + 1, 40 * kMiB, 7ul}) {
    auto* block = static_cast<std::byte*>(take(bytes));
    REQUIRE(block);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % CachingAllocator::kAlignment == 0);
    std::memset(block, 1, bytes);
    blocks.emplace(block, bytes);
  }
  const std::byte* end = nullptr;
  for (const auto& [block, bytes] : blocks) {
    CHECK(block >= end);
    end = block + bytes;
  }
  for (const auto& [block, bytes] : blocks) allocator.deallocate(block);
  CHECK(allocator.figures().live == 0);
}

TEST_CASE_METHOD(Fixture, "nothing is handed out for nothing", "[allocator]") {
  CHECK(take(0) == nullptr);
  CHECK_NOTHROW(allocator.deallocate(nullptr));
  CHECK(log.acquired == 0);
}

TEST_CASE_METHOD(Fixture, "an implausible request is refused before the system is asked", "[allocator]") {
  CHECK_FAILS(UserError, take(std::size_t{1} << 60), "not plausible");
  CHECK(log.acquired == 0);
}

TEST_CASE_METHOD(Fixture, "returned blocks are reused without asking the system", "[allocator]") {
  const auto step = [&] {
    std::vector<void*> blocks;
    for (const std::size_t bytes : {300ul, 5 * kMiB, 20 * kMiB, 64ul, 3 * kMiB, 900000ul})
      blocks.push_back(take(bytes));
    allocator.deallocate(blocks[1]);
    blocks[1] = take(4 * kMiB);
    for (void* block : blocks) allocator.deallocate(block);
  };
  step();
  const auto requests = allocator.figures().system_requests;
  CHECK(requests == static_cast<std::uint64_t>(log.acquired));
  for (int i = 0; i < 100; ++i) step();
  CHECK(allocator.figures().system_requests == requests);
}

TEST_CASE_METHOD(Fixture, "blocks split, and neighbours merge in any order of return", "[allocator]") {
  for (int order = 0; order < 3; ++order) {
    void* parts[3];
    for (void*& part : parts) part = take(8 * kMiB);  // of one 32 MiB segment
    CHECK(static_cast<std::byte*>(parts[1]) == static_cast<std::byte*>(parts[0]) + 8 * kMiB);
    for (int i = 0; i < 3; ++i) allocator.deallocate(parts[(i + order) % 3]);
    void* whole = take(32 * kMiB);
    CHECK(whole == parts[0]);
    allocator.deallocate(whole);
  }
  CHECK(log.acquired == 1);
}

TEST_CASE_METHOD(Fixture, "the best fitting block is taken", "[allocator]") {
  void* large = take(12 * kMiB);
  void* fence = take(2 * kMiB);
  void* small = take(5 * kMiB);
  void* fence2 = take(2 * kMiB);
  allocator.deallocate(large);
  allocator.deallocate(small);
  void* fits = take(4 * kMiB + kMiB / 2);
  CHECK(fits == small);
  for (void* block : {fits, fence, fence2}) allocator.deallocate(block);
}

TEST_CASE_METHOD(Fixture, "live and peak figures, in all and by kind", "[allocator]") {
  void* weights = take(2 * kMiB, MemoryKind::weights);
  void* first = take(4 * kMiB, MemoryKind::activations);
  void* gradients = take(kMiB, MemoryKind::gradients);
  allocator.deallocate(first);
  MemoryFigures figures = allocator.figures();
  const auto of = [](const auto& by_kind, MemoryKind kind) { return by_kind[static_cast<int>(kind)]; };
  CHECK(figures.live == 3 * kMiB);
  CHECK(figures.peak == 7 * kMiB);
  CHECK(of(figures.live_by_kind, MemoryKind::weights) == 2 * kMiB);
  CHECK(of(figures.live_by_kind, MemoryKind::activations) == 0);
  CHECK(of(figures.peak_by_kind, MemoryKind::activations) == 4 * kMiB);
  CHECK(of(figures.peak_by_kind, MemoryKind::gradients) == kMiB);
  CHECK(figures.reserved >= figures.live);
  CHECK(figures.peak_reserved == figures.reserved);
  allocator.reset_peak();
  figures = allocator.figures();
  CHECK(figures.peak == 3 * kMiB);
  CHECK(of(figures.peak_by_kind, MemoryKind::activations) == 0);
  void* large = take(40 * kMiB);
  CHECK(allocator.figures().peak_reserved == allocator.figures().reserved);
  allocator.deallocate(large);
  allocator.trim();
  CHECK(allocator.figures().peak_reserved == figures.reserved + 40 * kMiB);
  allocator.reset_peak();
  CHECK(allocator.figures().peak_reserved == figures.reserved);
  void* more = take(kMiB / 2, MemoryKind::data);
  CHECK(allocator.figures().peak == 3 * kMiB + kMiB / 2);
  CHECK(of(allocator.figures().peak_by_kind, MemoryKind::data) == kMiB / 2);
  for (void* block : {weights, gradients, more}) allocator.deallocate(block);
  CHECK(allocator.figures().live == 0);
}

TEST_CASE("kinds have names", "[allocator]") {
  CHECK(name_of(MemoryKind::weights) == "weights");
  CHECK(name_of(MemoryKind::optimizer) == "optimizer");
  CHECK(name_of(MemoryKind::data) == "data");
}

TEST_CASE_METHOD(Fixture, "trim returns segments without a live block only", "[allocator]") {
  void* kept = take(kMiB, MemoryKind::weights);
  void* large = take(50 * kMiB);
  allocator.deallocate(large);
  CHECK(log.segments.size() == 2);
  allocator.trim();
  CHECK(log.segments.size() == 1);
  CHECK(allocator.figures().reserved == log.segments.begin()->second);
  std::memset(kept, 0, kMiB);
  allocator.deallocate(kept);
  allocator.trim();
  CHECK(log.segments.empty());
  CHECK(allocator.figures().reserved == 0);
  void* again = take(kMiB);
  CHECK(again);
  allocator.deallocate(again);
}

TEST_CASE_METHOD(Fixture, "a free block beside a live one, on either side, keeps its segment",
                 "[allocator]") {
  void* parts[3];
  for (void*& part : parts) part = take(8 * kMiB);  // of one 32 MiB segment
  for (const int live : {2, 0, 1}) {
    for (int i = 0; i < 3; ++i)
      if (i != live) allocator.deallocate(parts[i]);
    allocator.trim();
    CHECK(log.segments.size() == 1);
    CHECK(allocator.figures().reserved == 32 * kMiB);
    std::memset(parts[live], 0, 8 * kMiB);
    for (int i = 0; i < 3; ++i)
      if (i != live) parts[i] = take(8 * kMiB);
    CHECK(log.acquired == 1);
  }
  for (void* part : parts) allocator.deallocate(part);
}

TEST_CASE_METHOD(Fixture, "the request that is to be refused is, once", "[allocator]") {
  for (const std::uint64_t grants : {0, 1, 3}) {
    allocator.refuse_after(grants);
    std::vector<void*> blocks;
    for (std::uint64_t i = 0; i < grants; ++i) blocks.push_back(take(kMiB));
    CHECK_THROWS_AS(take(kMiB), VendorError);
    blocks.push_back(take(kMiB));
    for (void* block : blocks) allocator.deallocate(block);
  }
  allocator.refuse_after({});
  for (int i = 0; i < 5; ++i) allocator.deallocate(take(kMiB));
}

TEST_CASE("the destructor returns everything", "[allocator]") {
  SourceLog log;
  {
    CachingAllocator allocator(std::make_unique<FakeSource>(log));
    allocator.deallocate(allocator.allocate(3 * kMiB, MemoryKind::data));
    allocator.deallocate(allocator.allocate(100, MemoryKind::data));
    CHECK(log.segments.size() == 2);
  }
  CHECK(log.segments.empty());
}

TEST_CASE_METHOD(Fixture, "a refusal is retried after a trim, with the smallest segment that does",
                 "[allocator]") {
  allocator.deallocate(take(100 * kMiB));
  log.refuse_from = log.acquired;  // refuses once
  log.refuse_until = log.acquired + 1;
  void* block = take(120 * kMiB);
  CHECK(block);
  CHECK(log.segments.size() == 1);  // the cached segment went back to make room
  allocator.deallocate(block);
}

TEST_CASE_METHOD(Fixture, "when memory is exhausted the message says how much of what, and what to do",
                 "[allocator]") {
  void* held = take(6 * kMiB);
  log.refuse_from = log.acquired;
  CHECK_FAILS(VendorError, take(64 * kMiB), "[allocator] fake memory is exhausted: 67108864 bytes requested");
  CHECK_FAILS(VendorError, take(64 * kMiB), "6291456 bytes in use");
  CHECK_FAILS(VendorError, take(64 * kMiB), "a smaller data.batch_size");
  // A smaller batch leaves the model as large as it is.
  for (const MemoryKind kind :
       {MemoryKind::weights, MemoryKind::masters, MemoryKind::gradients, MemoryKind::optimizer}) {
    CHECK_FAILS(VendorError, take(64 * kMiB, kind), std::string(name_of(kind)));
    CHECK_FAILS(VendorError, take(64 * kMiB, kind), "fewer units or layers");
  }
  // What exists goes on working.
  void* rest = take(2 * kMiB);
  CHECK(rest);
  log.refuse_from = 1 << 30;
  void* later = take(64 * kMiB);
  CHECK(later);
  for (void* block : {held, rest, later}) allocator.deallocate(block);
  CHECK(allocator.figures().live == 0);
}

TEST_CASE("whichever request is refused, the allocator stays consistent", "[allocator]") {
  for (int n = 0; n < 12; ++n) {
    SourceLog log;
    log.refuse_from = n;
    {
      CachingAllocator allocator(std::make_unique<FakeSource>(log));
      std::vector<void*> blocks;
      int refused = 0;
      for (const std::size_t bytes : {100ul, 2 * kMiB, 33 * kMiB, 40 * kMiB, 64ul, 90 * kMiB, 5 * kMiB}) {
        try {
          blocks.push_back(allocator.allocate(bytes, MemoryKind::data));
          std::memset(blocks.back(), 0, bytes);
        } catch (const VendorError&) {
          ++refused;
        }
      }
      CHECK((refused > 0) == (log.acquired > n));
      for (void* block : blocks) allocator.deallocate(block);
      CHECK(allocator.figures().live == 0);
      allocator.trim();
      CHECK(allocator.figures().reserved == 0);
    }
    CHECK(log.segments.empty());
  }
}

TEST_CASE_METHOD(Fixture, "threads allocate and return at once", "[allocator]") {
  std::atomic<int> spoiled{0};
  const auto work = [&](std::uint64_t seed) {
    RandomStream stream({.seed = seed});
    std::vector<std::pair<unsigned char*, std::size_t>> held;
    for (int i = 0; i < 4000; ++i) {
      if (held.size() > 20 || (!held.empty() && stream.below(2))) {
        const std::size_t pick = stream.below(static_cast<std::uint32_t>(held.size()));
        const auto [block, bytes] = held[pick];
        const auto mark = static_cast<unsigned char>(seed);
        spoiled += block[0] != mark || block[bytes - 1] != mark;
        allocator.deallocate(block);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick));
      } else {
        const std::size_t bytes = 1 + stream.below(i % 10 ? 20000 : 3 * kMiB);
        auto* block = static_cast<unsigned char*>(allocator.allocate(bytes, MemoryKind::activations));
        block[0] = block[bytes - 1] = static_cast<unsigned char>(seed);
        held.emplace_back(block, bytes);
      }
    }
    for (const auto& [block, bytes] : held) allocator.deallocate(block);
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  CHECK(spoiled == 0);
  CHECK(allocator.figures().live == 0);
  allocator.trim();
  CHECK(allocator.figures().reserved == 0);  // everything merged back into whole segments
}

TEST_CASE("the host's memory is real", "[allocator]") {
  CachingAllocator& allocator = host_allocator();
  const std::size_t live = allocator.figures().live;
  void* block = allocator.allocate(70 * kMiB, MemoryKind::data);
  std::memset(block, 3, 70 * kMiB);
  CHECK(allocator.figures().live == live + 70 * kMiB);
  allocator.deallocate(block);
  CHECK(allocator.figures().live == live);
  allocator.trim();
}
