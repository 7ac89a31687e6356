// Runs the tests, on a GPU where TANDEM_TEST_DEVICE is "cuda" (tests/support/tensors.h). Where there is none
// then, says why and ends with kSkipped, which CTest reports as skipped.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "core/backend.h"
#include "core/device_library.h"
#include "tests/support/tensors.h"

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  if (tandem::test::test_device().type == tandem::DeviceType::cuda && tandem::cuda_devices().count == 0) {
    std::printf("skipped: %s\n", tandem::cuda_devices().why_none.c_str());
    return kSkipped;
  }
  // What is compared with FP32 elsewhere, and with itself, is FP32 throughout and chosen by rule.
  tandem::backend_for(tandem::test::test_device())
      .set_rules({.allow_tf32 = false, .deterministic = true, .autotune = false});
  return Catch::Session().run(argc, argv);
}
