// Waiting for other processes: for how long, and how.
#pragma once

#include <chrono>

namespace tandem::parallel {

// Counts the time that this process has waited. Between two looks at most kLongestGap counts: a process that
// was stopped itself – by a signal, or with the whole machine – has waited for nobody meanwhile, and looks
// again before it gives up.
//
// Cores may have more processes than they can run, so that what is waited for may need this one. The first
// looks only let others go first; later ones sleep, longer the longer it takes: 20 µs, up to a millisecond.
class Deadline {
 public:
  explicit Deadline(double deadline_s) : deadline_s_(deadline_s) {}

  static constexpr std::chrono::milliseconds kLongestGap{1000};

  // After a look that found nothing: waits a little.
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
