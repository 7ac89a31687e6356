// The devices that a test runs on.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "core/device_library.h"

namespace tandem::test {

// The CPU, and the first CUDA device where there is one; says by the test's name where there is none.
inline std::vector<Device> devices() {
  const CudaDevices& cuda = cuda_devices();
  if (cuda.count > 0) return {Device{}, Device{DeviceType::cuda, 0}};
  WARN("skipped on cuda:0: \"" << Catch::getResultCapture().getCurrentTestName() << "\": " << cuda.why_none);
  return {Device{}};
}

}  // namespace tandem::test
