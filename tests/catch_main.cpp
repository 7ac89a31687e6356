// Runs the tests, on a GPU where TANDEM_TEST_DEVICE is "cuda" (tests/support/tensors.h). Where there is none then,
// says why and ends with kSkipped, which CTest reports as skipped.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "core/device_library.h"
#include "tests/support/tensors.h"

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  if (tandem::test::test_device().type == tandem::DeviceType::cuda && tandem::cuda_devices().count == 0) {
    std::printf("skipped: %s\n", tandem::cuda_devices().why_none.c_str());
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
