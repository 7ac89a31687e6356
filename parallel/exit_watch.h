// ExitWatch: a watchdog for calls of other libraries that may not return.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tandem::parallel {

// Unless destroyed within `deadline_s` seconds, a thread runs `last_act`, which should print the reason, and
// ends the process with `exit_code`, without unwinding.
class ExitWatch {
 public:
  ExitWatch(double deadline_s, int exit_code, std::function<void()> last_act);
  ~ExitWatch();
  ExitWatch(const ExitWatch&) = delete;
  ExitWatch& operator=(const ExitWatch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tandem::parallel
