#include "parallel/watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <utility>

namespace tandem::parallel {

namespace {

// Waits for a request to stop; false if there is none within so many seconds.
bool stops_within(const std::stop_token& stop, double seconds) {
  const std::chrono::duration<double> patience(
      std::min(seconds, 1e9));  // limit of nanoseconds in std::chrono
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, patience, [] { return false; });
  return stop.stop_requested();
}

}  // namespace

ExitWatch::ExitWatch(double deadline_s, int exit_code, std::function<void()> last_act)
    : thread_([deadline_s, exit_code, act = std::move(last_act)](const std::stop_token& stop) {
        if (stops_within(stop, deadline_s)) return;
        act();
        std::_Exit(exit_code);
      }) {}

// Each look counts at most its interval, so time in which this process was stopped does not count.
CallWatch::CallWatch(double deadline_s, std::function<void()> last_act)
    : thread_([this, deadline_s, act = std::move(last_act)](const std::stop_token& stop) {
        constexpr double kEvery = 0.25;  // seconds
        std::uint64_t seen = 0;
        double inside_s = 0;
        while (!stops_within(stop, kEvery)) {
          const std::uint64_t steps = steps_.load(std::memory_order_relaxed);
          inside_s = steps % 2 == 1 && steps == seen ? inside_s + kEvery : 0;
          seen = steps;
          if (inside_s < deadline_s) continue;
          act();
          std::_Exit(1);
        }
      }) {}

}  // namespace tandem::parallel
