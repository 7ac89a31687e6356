// An end for calls of other libraries that may not come back.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tandem::parallel {

// While one lives, `deadline_s` seconds at most go by: then a thread of its own does `last_act`, which is to
// say why, and ends the process with `exit_code`, without unwinding.
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
