// Failure of each allocation in a training step: the error names size and purpose, nothing leaks, and the
// step can be retried.
#include "core/error.h"
#include "tests/device/support.h"

using namespace tandem;
using namespace tandem::test;
using Catch::Contains;

namespace {

// Calls `work` with the n-th allocation refused, n = 0, 1, 2…, until it succeeds. Returns how often it
// failed.
template <class Work>
int fail_each_allocation(Work&& work) {
  CachingAllocator& allocator = backend_under_test().allocator();
  for (int n = 0;; ++n) {
    REQUIRE(n < 10000);
    allocator.refuse_after(static_cast<std::uint64_t>(n));
    try {
      work();
      allocator.refuse_after({});
      return n;
    } catch (const VendorError& error) {
      allocator.refuse_after({});
      CHECK_THAT(error.what(), Contains("memory is exhausted") && Contains("bytes requested") &&
                                   Contains("a smaller data.batch_size"));
    }
  }
}

}  // namespace

TEST_CASE("whichever allocation of a step is refused, the step can be done again", "[device]") {
  for (const std::string precision : {"fp32", "amp_fp16"}) {
    INFO(precision);
    const std::vector<std::string> settings{"precision=" + precision, "clip_norm=1", "accumulate=2"};
    Training expected(settings), training(settings);
    expected.run(0, {6, 6});
    training.run(0, {6, 6});
    const std::vector<datasets::Batch> batches{Training::batch(2), Training::batch(3)};
    CachingAllocator& allocator = backend_under_test().allocator();
    const std::size_t live = allocator.figures().live;
    const int failures = fail_each_allocation([&] {
      training.step->clear();
      REQUIRE(allocator.figures().live <= live + 4096);  // reports that are kept
      for (const datasets::Batch& batch : batches) training.runner->backward(batch, training.carry);
      training.runner->apply();
      training.step->synchronize();
    });
    CHECK(failures > 20);
    expected.run(2, {6, 6});
    const auto got = training.state(), wanted = expected.state();
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO(wanted[i].first);
      CHECK(got[i] == wanted[i]);
    }
  }
}

TEST_CASE("whichever allocation of a model is refused, nothing of it stays", "[device]") {
  CachingAllocator& allocator = backend_under_test().allocator();
  const std::size_t live = allocator.figures().live;
  const int failures = fail_each_allocation([&] {
    REQUIRE(allocator.figures().live == live);
    Training training({"precision=amp_bf16", "ema={\"decay\": 0.9}"});
    training.run(0);
  });
  CHECK(failures > 50);
  CHECK(allocator.figures().live == live);
}
