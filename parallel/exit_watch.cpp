#include "parallel/exit_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "parallel/last_words.h"

namespace tandem::parallel {

ExitWatch::ExitWatch(double deadline_s, int exit_code, std::function<std::string()> last_words)
    : thread_([this, deadline_s, exit_code, words = std::move(last_words)] {
        // What std::chrono can count to, in nanoseconds.
        const std::chrono::duration<double> patience(std::min(deadline_s, 1e9));
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, patience, [this] { return over_; })) return;
        const std::string line = words();
        if (!line.empty()) say_last_words(line);
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
