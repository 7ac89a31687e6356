// Deadline for waiting for other processes, with backoff.
#pragma once

#include <chrono>

namespace tandem::parallel {

// Measures the time that this process has waited. Between two looks at most kLongestGap counts, so that a
// process that was stopped (by a signal, or with the whole machine) does not time out without looking again.
//
// Cores may be oversubscribed, and the other process may need this one's core. The first pauses only yield;
// later ones sleep, from 20 µs up to a millisecond.
class Deadline {
 public:
  explicit Deadline(double deadline_s) : deadline_s_(deadline_s) {}

  static constexpr std::chrono::milliseconds kLongestGap{1000};

  // Waits a little after an unsuccessful look.
  void pause();
  bool over() const { return waited_s_ >= deadline_s_; }
  double waited_s() const { return waited_s_; }

 private:
  using Clock = std::chrono::steady_clock;

  double deadline_s_;
  double waited_s_ = 0;
  Clock::time_point looked_ = Clock::now();
};

}  // namespace tandem::parallel
