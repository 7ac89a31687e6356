#include "parallel/call_watch.h"

#include <chrono>
#include <cstdlib>
#include <utility>

namespace tandem::parallel {

CallWatch::CallWatch(double deadline_s, std::function<void()> last_act)
    : thread_([this, deadline_s, act = std::move(last_act)] { look(deadline_s, act); }) {}

CallWatch::~CallWatch() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// Each look counts at most its interval, so time in which this process was stopped does not count.
void CallWatch::look(double deadline_s, const std::function<void()>& last_act) {
  constexpr double kEvery = 0.25;  // seconds
  std::uint64_t seen = 0;
  double inside_s = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::duration<double>(kEvery), [this] { return over_; })) {
    const std::uint64_t steps = steps_.load(std::memory_order_relaxed);
    inside_s = steps % 2 == 1 && steps == seen ? inside_s + kEvery : 0;
    seen = steps;
    if (inside_s < deadline_s) continue;
    last_act();
    std::_Exit(1);
  }
}

}  // namespace tandem::parallel
