#include "parallel/exit_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

namespace tandem::parallel {

ExitWatch::ExitWatch(double deadline_s, int exit_code, std::function<void()> last_act)
    : thread_([this, deadline_s, exit_code, act = std::move(last_act)] {
        // Limit of std::chrono in nanoseconds.
        const std::chrono::duration<double> patience(std::min(deadline_s, 1e9));
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, patience, [this] { return over_; })) return;
        act();
        std::_Exit(exit_code);
      }) {}

ExitWatch::~ExitWatch() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace tandem::parallel
