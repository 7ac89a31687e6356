// Watchdogs of calls of other libraries: threads that end the process, without unwinding, if a call does not
// return. `last_act` runs before the end and should print the reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace tandem::parallel {

// For a call that may wait: ends the process with `exit_code` unless destroyed within `deadline_s` seconds.
class ExitWatch {
 public:
  ExitWatch(double deadline_s, int exit_code, std::function<void()> last_act);

 private:
  std::jthread thread_;
};

// For calls that must not block; they do not overlap. Ends the process with exit code 1 if one takes
// `deadline_s` seconds of this process's running time. A call costs two stores; the thread looks four times a
// second.
class CallWatch {
 public:
  CallWatch(double deadline_s, std::function<void()> last_act);

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

  std::atomic<std::uint64_t> steps_{0};  // odd: inside
  std::jthread thread_;
};

}  // namespace tandem::parallel
