// Guards around host memory: detection, and no other effect.
#include "core/guard.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "core/cpu/onednn.h"
#include "core/tensor.h"
#include "tests/support/errors.h"
#include "tests/support/guards.h"

using namespace tandem;

namespace {

class Block {
 public:
  Block(std::size_t bytes, MemoryKind kind)
      : data_(static_cast<unsigned char*>(host_allocator().allocate(bytes, kind))) {}
  ~Block() { host_allocator().deallocate(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  unsigned char* data() const { return data_; }

 private:
  unsigned char* data_;
};

}  // namespace

TEST_CASE("bytes written beyond a block are counted, on both sides", "[guard]") {
  const test::Guards guards(true);
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{3} << 20}) {
    for (const MemoryKind kind : {MemoryKind::weights, MemoryKind::activations, MemoryKind::workspace}) {
      {
        const Block block(bytes, kind);
        std::memset(block.data(), 0, bytes);
        CHECK_FALSE(guard::overrun(block.data()));
        CHECK_NOTHROW(guard::check("test"));
        block.data()[bytes] = 1;
        CHECK(guard::overrun(block.data()).behind == 1);
        block.data()[bytes + 2783] = 1;
        block.data()[-5] = 1;
        const guard::Overrun found = guard::overrun(block.data());
        CHECK(found.behind == 2784);
        CHECK(found.before == 5);
        CHECK_FALSE(found.at_least);
        CHECK_FAILS(InternalError, guard::check("conv2d"),
                    "[conv2d] 5 bytes before and 2784 bytes behind a block of " + std::to_string(bytes) +
                        " bytes (" + std::string(name_of(kind)) + ") were overwritten");
      }
      CHECK(guard::forget());
    }
  }
}

TEST_CASE("a guard that was overwritten to its end says so", "[guard]") {
  const test::Guards guards(true);
  const Block block(64, MemoryKind::activations);
  std::memset(block.data(), 0, 64 + guard::kGuard);
  CHECK(guard::overrun(block.data()).at_least);
  CHECK_FAILS(InternalError, guard::check("test"), "at least 16384 bytes behind");
}

TEST_CASE("overwritten memory is found even after the block is returned", "[guard]") {
  const test::Guards guards(true);
  {
    const Block block(1000, MemoryKind::data);
    block.data()[1000] = 7;
  }
  CHECK_FAILS(InternalError, guard::check("test"), "1 bytes behind a block of 1000 bytes (data)");
  CHECK_FAILS(InternalError, guard::check("test"), "1 bytes behind");  // it stays said
  CHECK(guard::forget());
  CHECK_NOTHROW(guard::check("test"));
}

TEST_CASE("a workspace has a margin where guards are off", "[guard]") {
  const test::Guards guards(false);
  const Block activations(1000, MemoryKind::activations);
  CHECK_FALSE(guard::overrun(activations.data()));
  for (const std::size_t bytes : {std::size_t{40}, std::size_t{2} << 20}) {
    {
      const Block workspace(bytes, MemoryKind::workspace);
      workspace.data()[bytes + guard::kMargin - 1] = 0;
    }
    CHECK_FAILS(InternalError, guard::check("memory"), "4096 bytes behind a block of");
    CHECK_FAILS(InternalError, guard::check("memory"), "with TANDEM_GUARD=1 the run names the kernel");
    CHECK(guard::forget());
  }
}

TEST_CASE("guards come and go while blocks live, and the figures leave them out", "[guard]") {
  const auto live_with = [](bool on) {
    const test::Guards guards(on);
    const std::size_t before = host_allocator().figures().live;
    const Block small(100, MemoryKind::workspace), large(std::size_t{5} << 20, MemoryKind::workspace);
    CHECK(reinterpret_cast<std::uintptr_t>(small.data()) % CachingAllocator::kAlignment == 0);
    guard::turn(!on);
    return host_allocator().figures().live - before;
  };
  const std::size_t live = live_with(true);
  CHECK(live >= (std::size_t{5} << 20) + 128);
  CHECK(live_with(false) == live);
}

TEST_CASE("guarded calls of oneDNN give the bits of others", "[guard]") {
  using namespace cpu::onednn;
  const Matmul problem{.batch = 1,
                       .m = 37,
                       .n = 41,
                       .k = 53,
                       .lda = 53,
                       .ldb = 41,
                       .ldc = 41,
                       .stride_a = 0,
                       .stride_b = 0,
                       .accumulate = true};
  const auto primitive = matmul(problem);
  const auto run = [&](bool on) {
    const test::Guards guards(on);
    std::vector<float> a(37 * 53), b(53 * 41), c(37 * 41, 0.25f);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) / 3.0f;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) / 7.0f;
    primitive->run({a.data(), b.data(), c.data()});
    return c;
  };
  CHECK(run(true) == run(false));
}
