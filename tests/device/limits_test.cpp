// What only the emulated GPU can show: how often the host waits, and what happens when memory runs out.
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
      training.runner->backward(batches[i]);
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
    training.runner->backward(Training::batch(1, 60000));
  } catch (const VendorError& error) {
    message = error.what();
  }
  gpu.set_device_memory(std::size_t{8} << 30);
  for (const char* part : {"cuda:0 memory is exhausted", "bytes asked for", "bytes in use", "bytes free",
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

TEST_CASE("what the libraries do not offer is done in other ways", "[device][emulated]") {
  const Emulator gpu = emulator();
  if (!gpu) {
    WARN("skipped: the device is not the emulated GPU");
    return;
  }
  const auto losses = [&](bool narrow) {
    gpu.set_narrow_libraries(narrow);
    Training training({"precision=amp_bf16"});
    std::vector<double> values;
    for (std::uint64_t i = 0; i < 8; ++i) values.push_back(training.run(i).loss);
    gpu.set_narrow_libraries(false);
    return values;
  };
  const auto wide = losses(false), narrow = losses(true);
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == Approx(wide[i]).epsilon(2e-2));
}
