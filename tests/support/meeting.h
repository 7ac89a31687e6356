// Reusable barrier of a given number of threads; waiting threads sleep.
#pragma once

#include <condition_variable>
#include <mutex>

namespace tandem::test {

class Meeting {
 public:
  explicit Meeting(int threads) : threads_(threads) {}

  // Returns when all of them have come.
  void meet() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++here_ == threads_) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return round_ != round; });
  }

 private:
  const int threads_;
  int here_ = 0, round_ = 0;
  std::mutex mutex_;
  std::condition_variable all_here_;
};

}  // namespace tandem::test
