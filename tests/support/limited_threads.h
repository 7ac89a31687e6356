// Limits the number of threads of a process.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace tandem::test {

// The address space of the process holds the stacks of so many further threads and not one more.
class LimitedThreads {
 public:
  explicit LimitedThreads(int threads) {
    getrlimit(RLIMIT_AS, &before_);
    pthread_getattr_default_np(&attributes_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStack);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit now = before_;
    now.rlim_cur = pages * static_cast<std::size_t>(getpagesize()) +
                   static_cast<std::size_t>(threads) * kStack + kStack / 2;
    setrlimit(RLIMIT_AS, &now);
  }
  void lift() const {
    setrlimit(RLIMIT_AS, &before_);
    pthread_setattr_default_np(&attributes_);
  }
  ~LimitedThreads() { lift(); }
  LimitedThreads(const LimitedThreads&) = delete;
  LimitedThreads& operator=(const LimitedThreads&) = delete;

 private:
  static constexpr std::size_t kStack = std::size_t{1} << 30;
  rlimit before_{};
  pthread_attr_t attributes_{};
};

}  // namespace tandem::test
