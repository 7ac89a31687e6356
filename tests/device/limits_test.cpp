// Tests that need the emulated GPU: number of host waits, and exhausted memory.
#include <cmath>

#include "core/error.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("the host neither waits nor allocates in a step", "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  for (const train::GraphUse graphs : {train::GraphUse::off, train::GraphUse::automatic}) {
    Training training({"precision=amp_fp16", "clip_norm=1"}, graphs);
    std::vector<datasets::Batch> batches;
    for (std::uint64_t i = 0; i < 12; ++i) batches.push_back(Training::batch(i));
    const auto step = [&](std::uint64_t i) {
      training.runner->backward(batches[i], training.carry);
      training.runner->apply();
    };
    for (std::uint64_t i = 0; i < 6; ++i) step(i);
    CHECK(training.runner->recorded() == (graphs != train::GraphUse::off));
    training.step->synchronize();
    const auto before = gpu.counts();
    for (std::uint64_t i = 6; i < 12; ++i) step(i);
    const auto after = gpu.counts();
    // The outcome of a step is waited for two steps later: by then a GPU is done with it.
    CHECK(after.host_waits - before.host_waits <= 6);
    CHECK(after.allocations == before.allocations);
    CHECK(after.host_allocations == before.host_allocations);
    CHECK(after.graph_launches - before.graph_launches == (graphs == train::GraphUse::off ? 0 : 12));
    if (graphs != train::GraphUse::off) CHECK(after.launches - before.launches < 6);
    CHECK(training.step->synchronize().attempted == 12);
  }
}

TEST_CASE("memory that runs out is an error with figures and advice, and nothing is lost",
          "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  Training training({"precision=fp32"});
  training.run(0);
  const auto state = training.state();
  gpu.set_device_memory(gpu.counts().device_bytes + (std::size_t{1} << 20));
  std::string message;
  try {
    training.runner->backward(Training::batch(1, 60000), training.carry);
  } catch (const VendorError& error) {
    message = error.what();
  }
  gpu.set_device_memory(std::size_t{8} << 30);
  for (const char* part : {"cuda:0 memory is exhausted", "bytes requested", "bytes in use", "bytes free",
                           "a smaller data.batch_size", "accumulate"}) {
    INFO(message);
    CHECK_THAT(message, Catch::Contains(part));
  }
  CHECK(training.state() == state);
  CHECK(training.run(1).applied == 2);
}

TEST_CASE("however little memory there is, a run fails cleanly or succeeds", "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  constexpr std::size_t kSegment = std::size_t{4} << 20;  // what the allocator asks for at least
  // What is cached would serve the allocations that are to fail.
  backend_under_test().allocator().trim();
  const std::size_t used = gpu.counts().device_bytes;
  int failed = 0;
  bool recorded = false;
  for (std::size_t room = 0; !recorded && room < 64 * kSegment; room += kSegment) {
    gpu.set_device_memory(used + room);
    try {
      Training training({"precision=amp_fp16"});
      for (std::uint64_t i = 0; i < 5; ++i) CHECK(std::isfinite(training.run(i).loss));
      recorded = training.runner->recorded();
      // Where there is room for ordinary steps and none for recordings, those go on.
      if (!recorded) CHECK_THAT(training.runner->why_not_recorded(), Catch::Contains("memory is exhausted"));
    } catch (const VendorError& error) {
      CHECK_THAT(error.what(), Catch::Contains("memory is exhausted"));
      ++failed;
    }
    backend_under_test().allocator().trim();
  }
  gpu.set_device_memory(std::size_t{8} << 30);
  CHECK(failed > 0);
  CHECK(recorded);
}

TEST_CASE("a step that cannot be recorded runs as an ordinary one with the same bits", "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  const std::vector<std::string> overrides = {"precision=amp_fp16", "accumulate=2", "ema={\"decay\": 0.5}"};
  const std::vector<Index> sizes = {6, 6};
  for (const char* function : {"cudaGraphInstantiate", "cudaGraphLaunch"}) {
    for (const std::uint64_t n : {1, 2, 3}) {  // two micro-batches, and the end of the step
      INFO(function << " number " << n);
      Training ordinary(overrides, train::GraphUse::off), failing(overrides);
      const auto run = [&](Training& training, std::uint64_t i) {
        // Leaves copies of the masters behind that are renewed at their next use.
        { const optim::Ema::Scope averages(*training.step->ema()); }
        return training.run(2 * i, sizes);
      };
      const std::size_t before = backend_under_test().memory().reserved;
      for (std::uint64_t i = 0; i < 8; ++i) {
        INFO("step " << i);
        if (i == 3) gpu.fail_call(function, n);
        const optim::StepReport expected = run(ordinary, i), got = run(failing, i);
        CHECK(got.attempted == expected.attempted);
        CHECK(got.loss == expected.loss);
        CHECK(got.gradient_norm == expected.gradient_norm);
        CHECK(got.skip == expected.skip);
      }
      CHECK_FALSE(failing.runner->recorded());
      CHECK_THAT(failing.runner->why_not_recorded(), Catch::Contains(function));
      CHECK(failing.state() == ordinary.state());
      CHECK(backend_under_test().memory().reserved <= before + (std::size_t{8} << 20));
      // Where recordings are insisted on, the failure is told.
      Training insisting(overrides, train::GraphUse::on);
      for (std::uint64_t i = 0; i < 3; ++i) run(insisting, i);
      gpu.fail_call(function, n);
      CHECK_THROWS_AS(run(insisting, 3), VendorError);
    }
  }
}

TEST_CASE("averages that cannot be swapped out keep the step from training", "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  Training training({"precision=fp32", "ema={\"decay\": 0.5}"});
  for (std::uint64_t i = 0; i < 2; ++i) training.run(i);
  const auto state = training.state();
  optim::Ema& ema = *training.step->ema();
  // Copies of masters and statistics are made, and the averages put in their place.
  for (const std::uint64_t n : {1, 2, 3, 4}) {
    gpu.fail_call("cudaMemcpyAsync", n);
    CHECK_THROWS_AS(optim::Ema::Scope(ema), VendorError);
    CHECK_FALSE(ema.swapped_in());
    CHECK(training.state() == state);
  }
  {
    optim::Ema::Scope averaged(ema);
    gpu.fail_call("cudaMemcpyAsync", 2);
    CHECK_THROWS_AS(averaged.leave(), VendorError);
    CHECK(ema.swapped_in());
    averaged.leave();
    CHECK_FALSE(ema.swapped_in());
    CHECK(training.state() == state);
    averaged.leave();
  }
  CHECK(training.state() == state);
  {
    const optim::Ema::Scope averaged(ema);
    gpu.fail_call("cudaMemcpyAsync", 1);
  }
  CHECK(ema.swapped_in());
  CHECK_THROWS_AS(training.run(2), UserError);
}

TEST_CASE("passes without a library algorithm use other kernels", "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  const auto losses = [&](bool narrow) {
    gpu.set_narrow_libraries(narrow);
    // Other rules have plans of their own.
    const RulesScope rules({.allow_tf32 = narrow, .deterministic = true, .autotune = narrow});
    Training training({"precision=amp_bf16"});
    std::vector<double> values;
    for (std::uint64_t i = 0; i < 8; ++i) values.push_back(training.run(i).loss);
    gpu.set_narrow_libraries(false);
    return values;
  };
  const auto wide = losses(false), narrow = losses(true);
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == Approx(wide[i]).epsilon(2e-2));
}
