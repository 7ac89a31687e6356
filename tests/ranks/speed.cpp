// Duration of all-reduces, for bench/all_reduce: lines "f32 4096 12.3", dtype, bytes, microseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tests/ranks/checking.h"

namespace tandem::test {

using namespace tandem::parallel;

namespace {

double microseconds_of(Communicator& ranks, Elements data, int times) {
  using Clock = std::chrono::steady_clock;
  ranks.barrier(kDeadline);
  const auto begun = Clock::now();
  for (int i = 0; i < times; ++i) ranks.all_reduce(data, Reduction::sum, kDeadline);
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count() / times;
}

}  // namespace

void measure_speed(Communicator& ranks) {
  constexpr std::size_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 100 << 20};
  constexpr double kBytesOfBlock = 64e6;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::size_t bytes : kSizes) {
      std::vector<std::byte> memory(bytes);  // zeros stay what they are
      const Elements data(memory.data(), bytes / size_of(dtype), dtype);
      const int times = std::clamp(static_cast<int>(kBytesOfBlock / static_cast<double>(bytes)), 1, 500);
      microseconds_of(ranks, data, std::min(times, 3));
      const double us = microseconds_of(ranks, data, times);
      if (ranks.rank() == 0) std::printf("%s %zu %.2f\n", std::string(name_of(dtype)).c_str(), bytes, us);
    }
}

}  // namespace tandem::test
