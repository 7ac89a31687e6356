// CallWatch: a watchdog for library calls that must not block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace tandem::parallel {

// Calls are short and do not overlap. If one takes `deadline_s` seconds of this process's running time, a
// thread runs `last_act` and ends the process with exit code 1, without unwinding. A call costs two stores;
// the thread looks four times a second.
class CallWatch {
 public:
  CallWatch(double deadline_s, std::function<void()> last_act);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // Marks the duration of a call.
  class Inside {
   public:
    explicit Inside(CallWatch& watch) : watch_(watch) { watch_.step(); }
    ~Inside() { watch_.step(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    CallWatch& watch_;
  };

 private:
  void step() { steps_.store(steps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void look(double deadline_s, const std::function<void()>& last_act);

  std::atomic<std::uint64_t> steps_{0};  // odd: inside
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tandem::parallel
