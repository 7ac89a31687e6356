// The device `shapes`: allocators without memory.
#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/shapes_backend.h"

using namespace tandem;
using Catch::Contains;

TEST_CASE("tensors of the device shapes cost nothing and cannot be read", "[shapes]") {
  const std::size_t held = host_allocator().figures().reserved;
  const MemoryFigures before = shapes_backend().memory();
  const Tensor huge = Tensor::zeros({1 << 20, 1 << 20}, {DType::f32, kShapes, MemoryKind::masters});
  CHECK(huge.device() == kShapes);
  CHECK(to_string(huge.device()) == "shapes");
  CHECK(shapes_backend().memory().live - before.live == std::size_t{1} << 42);
  CHECK(host_allocator().figures().reserved == held);

  CHECK_THROWS_AS(huge.to(Device{}), InternalError);
  CHECK_THROWS_AS(huge.rows(0, 1).to_vector<float>(), InternalError);
  CHECK_THROWS_WITH(huge.rows(0, 1).viewed({1 << 20}).rows(3, 1).item(), Contains("no elements to read"));
  CHECK(huge.clone().shape() == huge.shape());
  CHECK(Tensor::from({1, 2}, {2}).to(kShapes).shape() == Shape{2});
}
