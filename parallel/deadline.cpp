#include "parallel/deadline.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tandem::parallel {

void Deadline::pause() {
  constexpr double kYielding = 0.001;  // seconds; a thread switch takes about 2 µs
  if (waited_s_ < kYielding) {
    sched_yield();
  } else {
    const double sleep_s = std::clamp(waited_s_ / 100, 20e-6, 1e-3);
    std::this_thread::sleep_for(std::chrono::duration<double>(sleep_s));
  }
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> gap = std::min<Clock::duration>(now - looked_, kLongestGap);
  waited_s_ += gap.count();
  looked_ = now;
}

}  // namespace tandem::parallel
