// Runs the tests, on a GPU if TANDEM_TEST_DEVICE is "cuda" (tests/support/tensors.h). Without a GPU, it then
// prints the reason and exits with kSkipped, which CTest reports as skipped. Each test runs with guards
// around host memory (core/guard.h).
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "core/backend.h"
#include "core/device_library.h"
#include "core/guard.h"
#include "tests/support/tensors.h"

namespace {

bool overwritten = false;

// Memory around which a kernel wrote fails the test whose end finds it.
struct Guards : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseEnded(const Catch::TestCaseStats& test) override {
    try {
      tandem::guard::check(test.testInfo.name);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "FAILED: %s\n", error.what());
      overwritten = true;
      tandem::guard::forget();
    }
  }
};
CATCH_REGISTER_LISTENER(Guards)

}  // namespace

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  if (tandem::test::test_device().type == tandem::DeviceType::cuda && tandem::cuda_devices().count == 0) {
    std::printf("skipped: %s\n", tandem::cuda_devices().why_none.c_str());
    return kSkipped;
  }
  // What is compared with FP32 elsewhere, and with itself, is FP32 throughout and chosen by rule.
  tandem::backend_for(tandem::test::test_device())
      .set_rules({.allow_tf32 = false, .deterministic = true, .autotune = false});
  tandem::guard::turn(true);
  const int result = Catch::Session().run(argc, argv);
  return result == 0 && overwritten ? 1 : result;
}
