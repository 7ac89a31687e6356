// Thread counts of the calling thread, restored at the end of the scope.
#pragma once

#include <omp.h>

namespace tandem::test {

class ThreadCount {
 public:
  explicit ThreadCount(int count) { omp_set_num_threads(count); }
  ~ThreadCount() { omp_set_num_threads(outer_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int outer_ = omp_get_max_threads();
};

// For tests with tensors too small to gain from a second thread.
class OneThread : public ThreadCount {
 public:
  OneThread() : ThreadCount(1) {}
};

}  // namespace tandem::test
