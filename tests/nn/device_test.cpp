// Models built for their shapes.
#include "nn/device.h"

#include <catch2/catch.hpp>

#include "core/random.h"
#include "core/shapes_backend.h"
#include "nn/init.h"
#include "nn/layers.h"

using namespace tandem;
using namespace tandem::nn;

TEST_CASE("layers are built on the device of the scope", "[device]") {
  CHECK(BuildDevice::current() == Device{});
  {
    const BuildDevice shapes(kShapes);
    const Linear linear(1 << 22, 1 << 22);
    const BatchNorm norm(4);
    CHECK(device_of(linear) == kShapes);
    CHECK(device_of(norm) == kShapes);
    for (const Statistic& statistic : norm.statistics()) CHECK(statistic.next.device() == kShapes);
    {
      const BuildDevice host(Device{});
      CHECK(device_of(Linear(2, 2)) == Device{});
    }
    CHECK(device_of(Linear(2, 2)) == kShapes);
  }
  CHECK(device_of(Linear(2, 2)) == Device{});
}

TEST_CASE("initialisers accept tensors without memory", "[device]") {
  const RandomScope random(1, 0, 0);
  const BuildDevice shapes(kShapes);
  const Tensor weight = parameter_memory({1 << 21, 1 << 21});  // of which the host could hold none
  for (int i = 0; i < kWeightInitCount; ++i) {
    const auto init = static_cast<WeightInit>(i);
    INFO(name_of(init));
    CHECK_NOTHROW(initialise(weight, init));
  }
}
