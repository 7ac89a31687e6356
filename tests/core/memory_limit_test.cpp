#include "core/memory_limit.h"

#include <catch2/catch.hpp>

#include "core/allocator.h"
#include "core/error.h"
#include "core/tensor.h"

using namespace tandem;

TEST_CASE("host memory beyond the limit is refused, not promised", "[allocator]") {
  host_allocator().trim();
  const std::size_t held = host_allocator().figures().reserved;
  const std::size_t before = limit_host_memory(held + (std::size_t{64} << 20));
  CHECK(Tensor::empty({1 << 20}).bytes() == std::size_t{4} << 20);
  CHECK_THROWS_AS(Tensor::empty({1 << 25}), VendorError);
  CHECK_THROWS_WITH(Tensor::empty({1 << 25}), Catch::Contains("exhausted") && Catch::Contains("free"));
  {  // what fits alone does not fit beside as much again
    const Tensor first = Tensor::empty({10 << 20});
    CHECK_THROWS_AS(Tensor::empty({10 << 20}), VendorError);
  }
  limit_host_memory(before);
  CHECK(Tensor::empty({1 << 25}).bytes() == std::size_t{128} << 20);
  // What the machine has is the limit by default.
  CHECK_THROWS_AS(Tensor::empty({Index{1} << 43}), VendorError);
}
